// The keyboard of the review desk. Everything it does is a button or a link of the page, which works without it.
(() => {
  const desk = document.querySelector(".desk");
  if (!desk) return;

  const help = document.getElementById("keyboard");
  const on = document.getElementById("keyboard-on");
  const opener = document.querySelector(".keyboard-open");
  const asking = document.querySelector(".asking");
  const reasons = [...desk.querySelectorAll("input[name=reason_code]")];
  const words = desk.querySelector("textarea[name=reason]");
  const button = (decision) => desk.querySelector(`button[name=decision][value=${decision}]`);
  let pending = null; // the button that waits for a reason
  const taken = document.querySelector(".desk .claim button"); // another reviewer is on it
  let gone = false; // a decision is on its way: the next key is not meant for this page

  const press = (element) => {
    if (element) element.click();
  };

  const isEdited = () => [...desk.querySelectorAll("details.edit textarea")].some((each) => each.value !== each.defaultValue);

  const ask = (decision) => {
    pending = button(decision);
    if (!pending) return;
    desk.classList.add("is-asking");
    asking.textContent = `${pending.firstChild.textContent.trim()}: press 1 to ${reasons.length} for the reason, or o to write one. Esc goes back.`;
    pending.focus();
  };

  const stop = () => {
    pending = null;
    desk.classList.remove("is-asking");
    if (asking) asking.textContent = "";
    document.activeElement.blur();
  };

  const keys = {
    a: () => press(button(isEdited() ? "preview" : "approve")), // typed words are never dropped by a key
    r: () => ask("reject"),
    q: () => ask("quarantine"),
    t: () => ask("retire"),
    g: () => press(button("again")),
    c: () => press(document.querySelector(".claim button")),
    e: () => {
      const details = desk.querySelector("details.edit");
      if (!details) return;
      details.open = true;
      details.querySelector("textarea[name=guideline]").focus();
    },
    o: () => words && words.focus(),
    d: () => button("duplicate") && button("duplicate").focus(),
    m: () => button("merge") && button("merge").focus(),
    j: () => press(document.querySelector("a[rel=next]")),
    k: () => press(document.querySelector("a[rel=prev]")),
    u: () => press(document.querySelector(".undo button")),
    "?": () => help.showModal(),
  };

  document.addEventListener("submit", (event) => {
    if (event.target.method === "dialog") return;
    if (gone) event.preventDefault();
    gone = true;
  });
  window.addEventListener("pageshow", () => { gone = false; });

  document.addEventListener("keydown", (event) => {
    if (help.open || event.altKey || event.metaKey) return;
    const field = event.target.closest("textarea, select, input:not([type=radio]):not([type=checkbox])");
    if (event.key === "Escape") return stop();
    if (field && event.ctrlKey && event.key === "Enter") {
      event.preventDefault();
      return field === words ? press(pending) : press(button("preview"));
    }
    if (field || event.ctrlKey || gone || !on.checked || event.repeat) return;
    const number = Number.parseInt(event.key, 10);
    if (pending && number >= 1 && number <= reasons.length) {
      event.preventDefault();
      reasons[number - 1].checked = true;
      return press(pending);
    }
    const action = keys[event.key];
    if (!action) return;
    event.preventDefault();
    if (taken && "arqtedmg".includes(event.key)) return taken.focus(); // says who is on it, and what to press
    action();
  });

  on.checked = localStorage.getItem("erl-keys") !== "off";
  const showKeys = () => document.body.classList.toggle("has-keys", on.checked);
  on.addEventListener("change", () => {
    localStorage.setItem("erl-keys", on.checked ? "on" : "off");
    showKeys();
  });
  showKeys();
  opener.hidden = false;
  opener.addEventListener("click", () => help.showModal());

  const undo = document.querySelector(".undo");
  if (undo) setTimeout(() => undo.remove(), Number(undo.dataset.seconds) * 1000);
})();
