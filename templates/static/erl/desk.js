// Keyboard shortcuts of the review desk. Each one presses a button or follows a link that also works without script.
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
  let pending = null; // the button pressed before a reason was given
  const taken = document.querySelector(".desk .claim button"); // another reviewer has claimed it
  const offered = desk.dataset.keys || "aerqtgcodmjku?"; // the keys of this desk
  const noun = desk.dataset.noun || "proposal";
  const answer = desk.querySelector("details.answer textarea"); // in place of a call's result
  let gone = false; // a decision is being sent: ignore further keys

  const press = (element) => {
    if (element) element.click();
  };

  const isEdited = () => [...desk.querySelectorAll("details.edit textarea")].some((each) => each.value !== each.defaultValue);

  const ask = (decision) => {
    pending = button(decision);
    desk.classList.add("is-asking");
    asking.textContent = `${pending.firstChild.textContent.trim()}: press 1 to ${reasons.length} for the reason, o to write one, or Esc to cancel.`;
    pending.focus();
  };

  const stop = () => {
    pending = null;
    desk.classList.remove("is-asking");
    if (asking) asking.textContent = "";
    document.activeElement.blur();
  };

  // What each key needs on the page, and what to say if it is missing.
  const waits = () => button("reject");
  const nothing = `There is nothing for you to decide here. Press j for the next ${noun}.`;
  const needs = {
    a: [() => button(isEdited() ? "preview" : "approve"), () => desk.querySelector("details.edit[open]")
      ? "You are editing. Use “Save and approve”, or reload the page to discard your edit."
      : desk.dataset.noun ? nothing : "You have already approved it. It is waiting for a second reviewer; press j for the next proposal."],
    r: [() => button("reject"), () => nothing],
    q: [() => button("quarantine"), () => "There is nothing to quarantine here. Press j for the next proposal."],
    t: [() => button("retire"), () => "There is nothing to retire: this lesson is not in use."],
    g: [() => button("again"), () => "There is no run to reflect on again."],
    c: [() => document.querySelector(".claim button"), () => "There is nothing to take over or release here."],
    e: [() => desk.querySelector("details.edit"), () => nothing],
    o: [() => words, () => nothing],
    w: [() => answer, () => nothing],
    d: [() => button("duplicate"), () => "There is no similar lesson it could duplicate. Approve or reject it."],
    m: [() => button("merge"), () => "There is no similar lesson to merge it with. Approve or reject it."],
    j: [() => document.querySelector("a[rel=next]"), () => `There is no next ${noun}.`],
    k: [() => document.querySelector("a[rel=prev]"), () => `There is no previous ${noun}.`],
    u: [() => document.querySelector(".undo button"), () => "There is nothing to undo: a decision can be undone only within ten seconds."],
  };

  const says = document.querySelector(".keyboard-says");
  let saying = 0;
  const say = (text) => {
    says.textContent = text;
    clearTimeout(saying);
    saying = setTimeout(() => { says.textContent = ""; }, 6000);
  };

  const keys = {
    a: () => press(button(isEdited() ? "preview" : "approve")), // a key never discards what was typed
    r: () => ask("reject"),
    q: () => ask("quarantine"),
    t: () => ask("retire"),
    g: () => press(button("again")),
    c: () => press(document.querySelector(".claim button")),
    e: () => {
      const details = desk.querySelector("details.edit");
      details.open = true;
      (details.querySelector("textarea[name=guideline]") || details.querySelector("textarea")).focus();
    },
    o: () => words.focus(),
    w: () => {
      answer.closest("details").open = true;
      answer.focus();
    },
    d: () => button("duplicate").focus(),
    m: () => button("merge").focus(),
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
      if (field === answer) return press(button("answer"));
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
    if (!action || !offered.includes(event.key)) return;
    event.preventDefault();
    if (taken && "arqtedmg".includes(event.key)) return taken.focus(); // says who has claimed it, and what to press
    say("");
    const [element, otherwise] = needs[event.key] || [() => true];
    if (element()) return action();
    say("aegdm".includes(event.key) && !waits() ? nothing : otherwise());
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

  const wrong = desk.querySelector(".errorlist"); // may lie below what a phone shows first
  if (wrong) wrong.scrollIntoView({ block: "center" });

  const undo = document.querySelector(".undo");
  if (undo) setTimeout(() => undo.remove(), Number(undo.dataset.seconds) * 1000);
})();
