// The inbox in place: items are fetched before they are needed, a key shows the next one at once, and decisions are sent
// behind. Without this script every button and link works as an ordinary form and page.
(() => {
  const inbox = document.querySelector(".inbox");
  if (!inbox) return;
  const AHEAD = Number(inbox.dataset.count || 0);
  const DECISIVE = new Set(["approve", "accept", "try"]); // these wait until the words were read
  const HOLD_MS = 4000; // skimming claims nothing
  const UNDO_MS = 10000;
  const query = inbox.dataset.query ? `?${inbox.dataset.query}` : "";
  const says = inbox.querySelector(".says");
  const alarm = inbox.querySelector(".alarm");
  const undoForm = inbox.querySelector(".undo");
  const help = document.getElementById("keyboard");
  const on = document.getElementById("keyboard-on");
  const panes = new Map(); // fragments by item, fetched and not shown yet
  const sending = new Set(); // decisions on their way
  let asking = null; // the button pressed before a reason was given
  let unseen = new Set(); // ends of deciding words that were not on the screen yet
  let shownAt = performance.now();
  let held = false;
  let holdTimer = 0;
  let saysTimer = 0;
  let last = null; // the decision that can be undone
  let decisions = 0; // sent so far
  let answered = 0; // the newest of them whose answer was said
  let version = 0; // of what is shown, so that a late answer is not shown over it

  const isPhone = () => window.matchMedia("(max-width: 640px)").matches; // where no keys are shown
  const item = () => document.getElementById("item");
  const key = () => item().dataset.item || "";
  const noun = () => item().dataset.noun || "item";
  const reading = () => item().querySelector(".reading");
  const rows = () => [...inbox.querySelectorAll(".row")];
  const rowOf = (name) => rows().find((row) => row.dataset.item === name);
  const token = () => (document.cookie.match(/(?:^|; )csrftoken=([^;]+)/) || [])[1]
    || (document.querySelector("input[name=csrfmiddlewaretoken]") || {}).value || "";

  // ── What is said ──
  const say = (text) => {
    says.textContent = text;
    clearTimeout(saysTimer);
    saysTimer = setTimeout(() => { says.textContent = ""; }, UNDO_MS);
  };
  const warn = (text) => { alarm.textContent = text; };

  // ── Asking the server ──
  const isSignedOut = async () => { // without a session, a browser may have lost the other cookie as well
    const answer = await fetch(inbox.dataset.index, { method: "HEAD", redirect: "manual" });
    return answer.type === "opaqueredirect";
  };
  const ask = async (address, options = {}) => {
    let answer;
    try {
      answer = await fetch(address, {
        credentials: "same-origin",
        redirect: "manual",
        ...options,
        headers: { Accept: "application/json", "X-CSRFToken": token(), ...options.headers },
      });
    } catch {
      return { status: 0, said: "The server could not be reached. Nothing was saved." };
    }
    if (answer.type === "opaqueredirect") return { status: 401, said: "You are signed out." };
    if (answer.status === 403 && (await isSignedOut())) return { status: 401, said: "You are signed out." };
    const isJson = (answer.headers.get("Content-Type") || "").startsWith("application/json");
    const body = isJson ? await answer.json() : {};
    const refused = answer.status === 403
      ? "You may not do this, or your browser sent no valid cookie. Nothing was changed; reload the page and try again."
      : answer.status === 404 ? "It no longer exists, or you may not see it." : `The server answered ${answer.status}. Nothing was saved.`;
    return { said: answer.ok ? "" : refused, ...body, status: answer.status };
  };

  const signIn = (name) => {
    const address = name ? `${inbox.dataset.index}${name}/${query}` : location.href;
    location.assign(`${inbox.dataset.login}?next=${encodeURIComponent(new URL(address, location.href).pathname + query)}`);
  };

  // ── Drafts: what was typed survives a reload and signing in again ──
  const draftKey = (name, sha) => `erl-draft:${name}:${sha}`;
  const fields = (root) => [...root.querySelectorAll("textarea")];
  const keepDraft = () => {
    const typed = fields(item()).filter((each) => each.value !== each.defaultValue).map((each) => [each.name, each.value]);
    const name = draftKey(key(), item().dataset.sha);
    if (typed.length) localStorage.setItem(name, JSON.stringify({ at: Date.now(), typed }));
    else localStorage.removeItem(name);
  };
  const dropDraft = (name, sha) => localStorage.removeItem(draftKey(name, sha));
  const restoreDraft = () => {
    const kept = localStorage.getItem(draftKey(key(), item().dataset.sha));
    if (!kept || !reading()) return;
    const decided = !reading().querySelector(".actions button[name=decision]");
    for (const [name, value] of JSON.parse(kept).typed) {
      if (decided && name !== "text") continue; // a comment may still be sent
      const field = item().querySelector(`textarea[name="${CSS.escape(name)}"]`);
      if (!field || field.value === value) continue; // after a preview the page itself has what was typed
      field.value = value;
      const around = field.closest("details");
      if (around) around.open = true;
      say("What you typed here before is still here.");
    }
  };
  for (const name of Object.keys(localStorage)) { // old drafts, of items decided elsewhere
    if (!name.startsWith("erl-draft:")) continue;
    const kept = JSON.parse(localStorage.getItem(name) || "{}");
    if (!(Date.now() - kept.at < 30 * 86400e3)) localStorage.removeItem(name);
  }

  // ── What was read: approving waits until the beginning and end of all deciding words were on the screen ──
  const notice = (seen) => {
    for (const each of seen) if (each.isIntersecting) unseen.delete(each.target);
  };
  const watcher = new IntersectionObserver(notice);
  const watch = () => {
    watcher.disconnect();
    unseen = new Set();
    for (const words of item().querySelectorAll(".words [data-deciding]")) {
      for (const place of ["afterbegin", "beforeend"]) {
        const edge = document.createElement("span");
        edge.className = "edge";
        words.insertAdjacentElement(place, edge);
        unseen.add(edge);
        watcher.observe(edge);
      }
    }
  };
  const afterFrame = (then) => { // what is on the screen is known only after a frame was drawn
    requestAnimationFrame(() => requestAnimationFrame(() => {
      notice(watcher.takeRecords());
      then();
    }));
  };

  // ── Claims ──
  const hold = async () => {
    clearTimeout(holdTimer);
    if (held || !reading() || item().querySelector(".claim") || !inbox.dataset.count) return;
    held = true;
    const now = version;
    const answer = await ask(`${item().dataset.address}hold/`, { method: "POST" });
    if (now === version && answer.by && !answer.mine) {
      held = false;
      panes.delete(key());
      warn(`${answer.by} has claimed this ${noun()} until ${answer.until}. Press j for the next one, or c to take it over.`);
      show(key(), { keepAlarm: true });
    }
  };
  const letGo = () => {
    clearTimeout(holdTimer);
    if (!held) return;
    held = false;
    const data = new FormData();
    data.set("csrfmiddlewaretoken", token());
    navigator.sendBeacon(`${item().dataset.address}release/`, data);
  };

  // ── Showing an item ──
  const settle = () => {
    shownAt = performance.now();
    held = false;
    asking = null;
    version += 1;
    watch();
    restoreDraft();
    clearTimeout(holdTimer);
    holdTimer = setTimeout(hold, HOLD_MS);
  };

  const put = (html) => {
    const holder = document.createElement("template");
    holder.innerHTML = html;
    item().replaceWith(holder.content.querySelector("#item"));
    if (window.htmx) window.htmx.process(item());
  };

  const at = (pane) => {
    inbox.classList.remove("at-list", "at-words", "at-beside");
    inbox.classList.add(`at-${pane}`);
  };

  const focusWords = () => {
    const words = item().querySelector(".words");
    const next = item().querySelector("[autofocus]"); // what a preview asks for, below the changes that it shows
    if (next) {
      next.closest("details").querySelector("h4, .note").scrollIntoView({ block: "start" });
      next.focus({ preventScroll: true });
    } else if (words) words.focus({ preventScroll: true });
    else document.activeElement.blur();
  };

  const mark = (name) => {
    for (const row of rows()) row.toggleAttribute("aria-current", false);
    const row = rowOf(name);
    if (!row) return;
    row.setAttribute("aria-current", "true");
    row.scrollIntoView({ block: "nearest" });
  };

  const showNothing = () => {
    item().replaceChildren();
    item().removeAttribute("data-item");
    const empty = inbox.querySelector(".groups > .empty");
    if (empty) empty.hidden = Boolean(inbox.querySelector(".more")); // the next rows are on their way
    at("list");
    fetchRows();
  };

  const show = async (name, { keepAlarm = false, html = "" } = {}) => {
    if (!keepAlarm) warn("");
    letGo();
    version += 1;
    const now = version;
    let pane = html || panes.get(name);
    if (!pane) {
      const answer = await fetchAhead([name]);
      if (now !== version) return;
      if (answer.status === 401) return signIn(name);
      pane = panes.get(name);
      if (!pane) return warn(answer.said || "It no longer exists, or you may not see it.");
    }
    panes.delete(name);
    put(pane);
    mark(name);
    settle();
    at(inbox.classList.contains("at-beside") ? "beside" : "words");
    history.replaceState(null, "", `${item().dataset.address}${query}`);
    focusWords();
    fetchNext();
  };

  const fetchAhead = async (names) => {
    const answer = await ask(`${inbox.dataset.ahead}?${names.map((name) => `item=${encodeURIComponent(name)}`).join("&")}${query.replace("?", "&")}`);
    for (const [name, pane] of Object.entries(answer.panes || {})) panes.set(name, pane);
    return answer;
  };

  // ── The order of the list ──
  const free = (row) => !row.hasAttribute("data-held") && !row.hidden;
  const neighbour = (step) => {
    const all = rows();
    let place = all.findIndex((row) => row.dataset.item === key());
    if (place < 0) return step > 0 ? all.find(free) : undefined;
    for (place += step; place >= 0 && place < all.length; place += step) if (free(all[place])) return all[place];
    return undefined;
  };
  const wanted = () => {
    const all = rows();
    const place = all.findIndex((row) => row.dataset.item === key());
    return all.slice(place + 1).filter(free).slice(0, AHEAD).map((row) => row.dataset.item).filter((name) => !panes.has(name));
  };
  let fetching = null;
  const fetchNext = () => {
    fetchRows();
    const names = wanted();
    // A decision that is being sent brings the next ones along.
    if (!names.length || fetching || sending.size) return;
    fetching = fetchAhead(names).finally(() => { fetching = null; });
  };

  // The rest of a list is fetched before its rows run out. What comes twice, or was decided meanwhile, is dropped.
  const gone = new Set();
  let taking = 0;
  const fetchRows = () => {
    for (const link of inbox.querySelectorAll(".more a:not(.htmx-request)")) {
      const listed = [...link.closest("ol").querySelectorAll(".row")];
      const place = listed.findIndex((row) => row.dataset.item === key());
      if (listed.length - 1 - place <= AHEAD) window.htmx.trigger(link, "needed");
    }
  };
  inbox.addEventListener("htmx:configRequest", (event) => {
    const line = event.target.closest(".more");
    if (line) event.detail.parameters.listed = line.closest("ol").querySelectorAll(".row").length;
  });
  const takeRows = () => {
    taking = 0;
    const seen = new Set(gone);
    for (const row of rows()) {
      if (seen.has(row.dataset.item)) row.closest("li").remove();
      seen.add(row.dataset.item);
    }
    const first = rows().find(free);
    if (!key() && first) show(first.dataset.item);
    else fetchNext();
  };

  const count = (row, change) => {
    const number = row.closest(".group") && row.closest(".group").querySelector(".count");
    if (number) number.textContent = String(Number(number.textContent) + change);
    const all = document.querySelector(".shell-sections .waiting-count > span"); // read again every minute
    if (all) all.textContent = String(Number(all.textContent) + change);
  };

  // ── Deciding ──
  const isEdited = () => fields(reading()).some((each) => each.closest("details.edit") && each.value !== each.defaultValue);

  const decide = async (form, button) => {
    const name = key();
    const { sha } = item().dataset;
    const data = new FormData(form, button);
    data.set("on_screen", ((performance.now() - shownAt) / 1000).toFixed(1));
    const stays = button.hasAttribute("data-stays") || inbox.classList.contains("alone");
    if (sending.has(name)) return;
    if (inbox.classList.contains("alone")) return; // an ordinary form
    sending.add(name);
    decisions += 1;
    const number = decisions;
    const label = (button.firstChild ? button.firstChild.textContent : button.value).trim();
    const row = rowOf(name);
    const before = item().cloneNode(true);
    const home = row && { list: row.closest("ol"), next: row.closest("li").nextElementSibling };
    held = false; // a decision releases the claim
    clearTimeout(holdTimer);
    last = null;
    undoForm.hidden = true;
    if (!stays) {
      const following = neighbour(1) || neighbour(-1);
      gone.add(name);
      if (row) {
        count(row, -1);
        row.closest("li").remove();
      }
      if (following) show(following.dataset.item);
      else showNothing();
      for (const each of wanted()) data.append("ahead", each);
    }
    const decision = { name, row, home, token: "", done: null };
    if (!stays) last = decision;
    decision.done = ask(form.action, { method: "POST", body: data });
    const answer = await decision.done;
    sending.delete(name);
    if (answer.status === 200) {
      dropDraft(name, sha);
      for (const [each, pane] of Object.entries(answer.panes || {})) panes.set(each, pane);
      decision.token = answer.undo || "";
      const isNewest = number > answered; // a late answer is not said over that of a newer decision
      answered = Math.max(answered, number);
      if (stays && key() === name) {
        await show(name);
        say(answer.said);
      } else {
        if (isNewest) say(answer.said);
        if (last === decision) offerUndo();
        fetchNext();
      }
      return;
    }
    if (answer.status === 401) {
      if (key() === name) keepDraft();
      else localStorage.setItem(draftKey(name, sha), JSON.stringify({ at: Date.now(), typed: fields(before.querySelector(".reading")).map((each) => [each.name, data.get(each.name) || ""]).filter(([, value]) => value) }));
      return signIn(name);
    }
    if (answer.pane) panes.set(name, answer.pane);
    else panes.delete(name);
    if (last === decision) last = null;
    bringBack(decision, true);
    if (answer.status === 422 && (stays || key() === "")) return show(name);
    warn(`${label}: ${answer.status === 422 ? "nothing was decided." : answer.said} ${stays ? "" : "It is back in the list."}`);
    if (!stays && key() === "") show(name, { keepAlarm: true });
  };

  // A comment, an assignment, a day to come back: what the server says of it is shown in the tab.
  const arrange = async (form, button) => {
    const name = key();
    const { sha } = item().dataset;
    keepDraft();
    const answer = await ask(form.action, { method: "POST", body: new FormData(form, button) });
    if (answer.status === 401) return signIn(name);
    if (answer.status !== 200) return warn(answer.said);
    warn("");
    panes.delete(name);
    const row = rowOf(name);
    if (row) row.querySelector(".row-for").textContent = answer.assignee ? ` · ${answer.assignee}` : "";
    if (button.value === "comment") dropDraft(name, sha);
    if (answer.leaves && row) {
      const following = neighbour(1) || neighbour(-1);
      gone.add(name);
      count(row, -1);
      row.closest("li").remove();
      if (following) await show(following.dataset.item);
      else showNothing();
    } else if (key() === name) {
      document.getElementById("panel-discussion").innerHTML = answer.panel;
      document.getElementById("tab-discussion").textContent = answer.label;
      item().querySelector(".arranged").textContent = answer.arranged;
    }
    say(answer.said);
  };

  const bringBack = ({ name, row, home }, failed) => {
    gone.delete(name);
    if (!row || !home || row.isConnected) return;
    const line = document.createElement("li");
    line.append(row);
    row.classList.toggle("failed", failed);
    row.removeAttribute("aria-current");
    if (home.next && home.next.isConnected) home.next.before(line);
    else home.list.append(line);
    count(row, 1);
    const empty = inbox.querySelector(".groups > .empty");
    if (empty) empty.hidden = true;
  };

  let undoTimer = 0;
  const offerUndo = () => {
    clearTimeout(undoTimer);
    undoForm.hidden = !last || !last.token;
    undoTimer = setTimeout(() => { undoForm.hidden = true; last = null; }, UNDO_MS);
  };

  const undo = async () => {
    const decision = last;
    if (!decision) {
      if (!undoForm.hidden) return undoForm.requestSubmit();
      return say("There is nothing to undo: a decision can be undone only within ten seconds.");
    }
    last = null;
    undoForm.hidden = true;
    await decision.done;
    if (!decision.token) return say("This decision cannot be undone here.");
    const data = new FormData();
    data.set("kind", decision.name.split("/")[0]);
    data.set("item", decision.name);
    data.set("token", decision.token);
    const answer = await ask(inbox.dataset.undo, { method: "POST", body: data });
    if (answer.status !== 200) return warn(answer.said);
    for (const [name, pane] of Object.entries(answer.panes || {})) panes.set(name, pane);
    bringBack(decision, false);
    await show(decision.name);
    say(answer.said);
  };

  // ── Tabs and reasons ──
  const openTab = (name) => {
    const tab = document.getElementById(`tab-${name}`);
    if (!tab) return;
    for (const each of item().querySelectorAll("[role=tab]")) each.setAttribute("aria-selected", String(each === tab));
    for (const each of item().querySelectorAll(".panel-of")) each.hidden = each.id !== `panel-${name}`;
    if (window.matchMedia("(max-width: 1279px)").matches) at("beside");
  };

  const askReason = (button) => {
    const box = item().querySelector(".reasons");
    if (!box) return button.click();
    asking = button;
    box.classList.add("is-open");
    const choices = box.querySelectorAll("input[type=radio]").length;
    const name = button.firstChild.textContent.trim();
    const how = isPhone() ? `choose a reason, then press ${name} again.` : `press 1 to ${choices} for the reason, o to write one, or Esc to cancel.`;
    box.querySelector(".asking").textContent = `${name}: ${how}`;
    button.focus();
  };

  const closeReasons = () => {
    const box = item().querySelector(".reasons");
    if (box) box.classList.remove("is-open");
    asking = null;
  };

  const stop = () => {
    closeReasons();
    focusWords(); // so that the arrow keys scroll them
  };

  const hasReason = (form) => {
    const data = new FormData(form);
    return Boolean(data.get("reason_code") || (data.get("reason") || "").trim());
  };

  const openFields = (selector) => {
    const details = item().querySelector(selector);
    if (!details) return;
    closeReasons();
    details.open = true;
    (details.querySelector("textarea[name=guideline]") || details.querySelector("textarea")).focus();
    details.scrollIntoView({ block: "nearest" });
  };

  const openDiscussion = (letter) => {
    const focus = () => {
      const field = item().querySelector(`[data-key="${letter}"]`);
      if (field) field.focus();
      else say("To comment, you need the role of a reviewer or operator in this project.");
    };
    openTab("discussion");
    if (item().querySelector("#panel-discussion section")) return focus();
    item().addEventListener("htmx:afterSettle", focus, { once: true });
    document.getElementById("tab-discussion").click();
  };

  // ── Pressing ──
  const openButton = (name, decision) => {
    const tab = document.getElementById(`tab-${name}`);
    const find = () => item().querySelector(`.beside button[value="${decision}"]`);
    const focus = () => {
      const button = find();
      if (!button) return say(`There is no similar ${noun()} to merge it with.`);
      const near = button.closest(".near");
      near.scrollIntoView({ block: "nearest" });
      if (near.hasAttribute("data-far")) return say(`The most similar ${noun()} is another one. Read it, and press its button if they are the same.`);
      button.focus({ preventScroll: true });
    };
    openTab(name);
    if (tab.hasAttribute("hx-get") && !find()) {
      item().addEventListener("htmx:afterSettle", focus, { once: true });
      tab.click();
    } else focus();
  };

  const press = (element) => {
    if (element.dataset.tab) return openButton(element.dataset.tab, element.dataset.decision);
    if (element.dataset.asks === "edit") return openFields("details.edit");
    if (element.dataset.asks === "answer") return openFields("details.answer");
    element.click();
  };

  document.addEventListener("click", (event) => {
    const target = event.target.closest("a, button");
    if (!target || event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    if (target.matches(".row")) {
      event.preventDefault();
      at("words");
      return show(target.dataset.item);
    }
    if (target.matches("[role=tab]")) {
      event.preventDefault();
      return openTab(target.id.slice(4));
    }
    if (target.matches(".act[data-tab], .act[data-asks=edit], .act[data-asks=answer]")) {
      event.preventDefault();
      return press(target);
    }
    if (target.matches(".to-list, .to-words, .to-beside")) {
      event.preventDefault();
      return at(target.className.slice(3));
    }
    if (target.matches(".status [rel=next], .status [rel=prev]")) {
      event.preventDefault();
      return go(target.rel === "next" ? 1 : -1);
    }
    if (target.matches(".keyboard-open")) help.showModal();
  });

  document.addEventListener("submit", (event) => {
    const form = event.target;
    const button = event.submitter;
    if (form === undoForm && last) {
      event.preventDefault();
      return undo();
    }
    if (!form.closest("#item") || !button) return;
    if (form.matches(".talk")) {
      event.preventDefault();
      return arrange(form, button);
    }
    if (button.dataset.asks === "reason" && !hasReason(form)) {
      event.preventDefault();
      return askReason(button);
    }
    if (button.value === "approve" && isEdited()) {
      event.preventDefault();
      const preview = item().querySelector("details.edit button[value=preview]");
      if (preview) setTimeout(() => preview.click()); // a form that is being submitted cannot be submitted again
      return;
    }
    if (DECISIVE.has(button.value) && button.closest(".bar") && unseen.size) {
      event.preventDefault();
      return afterFrame(() => {
        if (!form.isConnected) return;
        if (!unseen.size) return form.requestSubmit(button);
        const [first] = unseen;
        first.parentElement.scrollIntoView({ block: "nearest" });
        first.scrollIntoView({ block: "center" });
        say("You had not seen all of it. Read to the end, then approve again.");
      });
    }
    if (inbox.classList.contains("alone")) return;
    event.preventDefault();
    decide(form, button);
  });

  inbox.addEventListener("input", (event) => {
    if (!event.target.closest("#item textarea")) return;
    keepDraft();
    if (event.target.closest(".reading")) hold();
  });
  inbox.addEventListener("htmx:afterSettle", (event) => {
    restoreDraft(); // a tab that was fetched may have fields
    if (!taking && event.target.closest(".groups")) taking = setTimeout(takeRows); // it is sent for every row
  });

  const go = (step) => {
    const row = neighbour(step);
    if (row) return show(row.dataset.item);
    say(step > 0 ? "There is nothing after this one." : "There is nothing before this one.");
  };

  document.addEventListener("keydown", (event) => {
    if (help.open || event.altKey || event.metaKey) return;
    const field = event.target.closest("textarea, select, input:not([type=radio]):not([type=checkbox])");
    if (event.key === "Escape") return stop();
    if (field && event.ctrlKey && event.key === "Enter") {
      event.preventDefault();
      if (field.name === "reason") return asking && asking.click();
      if (field.form.matches(".talk")) return field.form.requestSubmit(field.form.querySelector("button"));
      const around = field.closest("details");
      const button = around && around.querySelector("button[value=preview], button[value=answer]");
      return button && button.click();
    }
    if (field && event.key === "Enter" && field.matches(".talk select")) { // or it would open the list
      event.preventDefault();
      return field.form.requestSubmit(field.form.querySelector("button"));
    }
    if (field || event.ctrlKey || !on.checked || event.repeat) return;
    if (sending.has(key()) && !"jk?".includes(event.key)) return say("Your last step is still being saved. Press the key again in a moment.");
    const number = Number.parseInt(event.key, 10);
    const reasons = [...item().querySelectorAll(".reasons input[type=radio]")];
    if (asking && number >= 1 && number <= reasons.length) {
      event.preventDefault();
      reasons[number - 1].checked = true;
      return asking.click();
    }
    if (event.key === "?") return help.showModal();
    if (event.key === "o" && asking) {
      event.preventDefault();
      return item().querySelector(".own-reason textarea").focus();
    }
    if (event.key === "j" || event.key === "k") return inbox.classList.contains("alone") ? undefined : go(event.key === "j" ? 1 : -1);
    if (event.key === "u") return undo();
    if ("nsz".includes(event.key) && document.getElementById("tab-discussion")) {
      event.preventDefault();
      return openDiscussion(event.key);
    }
    const button = item().querySelector(`[aria-keyshortcuts="${CSS.escape(event.key)}"]`);
    if (!button && "aerqtgcdmw".includes(event.key)) {
      event.preventDefault();
      const merge = item().querySelector("[data-tab]"); // its button may be in a tab that was not opened yet
      if (event.key === "m" && merge) return openButton(merge.dataset.tab, "merge");
      return say(`This key does nothing for this ${noun()}.`);
    }
    if (!button) return;
    event.preventDefault();
    if (button.disabled) return say(button.dataset.why || "This cannot be done now.");
    press(button);
  });

  window.addEventListener("pagehide", letGo);

  on.checked = localStorage.getItem("erl-keys") !== "off";
  const showKeys = () => document.body.classList.toggle("has-keys", on.checked);
  on.addEventListener("change", () => {
    localStorage.setItem("erl-keys", on.checked ? "on" : "off");
    showKeys();
  });
  showKeys();
  if (reading()) settle();
  if (!undoForm.hidden) setTimeout(() => { if (!last) undoForm.hidden = true; }, UNDO_MS);
  const wrong = item().querySelector(".errorlist");
  if (wrong) wrong.scrollIntoView({ block: "center" });
  mark(key());
  setTimeout(fetchNext, 50); // after the first paint
})();
