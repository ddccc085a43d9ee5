// Follows a run: shows the words of an answer as they come, and draws the page's part again when something happened.
(() => {
  const DRAW_AFTER_MS = 150;
  let shown = document.getElementById("run");
  if (!shown || !shown.dataset.events) return;

  const events = new EventSource(shown.dataset.events);
  let drawing = 0;

  const draw = async () => {
    drawing = 0;
    const answer = await fetch(location.pathname, { credentials: "same-origin" });
    if (!answer.ok) return events.close(); // signed out, or the run was erased
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.getElementById("run");
    if (!fresh) return events.close();
    const opened = [...shown.querySelectorAll("details[open][id]")].map((each) => each.id);
    shown.replaceWith(fresh);
    shown = fresh;
    for (const id of opened) document.getElementById(id)?.setAttribute("open", "");
    const form = page.querySelector("form.talk"), old = document.querySelector("form.talk");
    if (!fresh.dataset.events) { // it has ended: the form now offers to go on
      events.close();
      if (form && old) old.replaceWith(form);
    }
  };

  const soon = () => { drawing ||= setTimeout(draw, DRAW_AFTER_MS); };

  events.addEventListener("text", (event) => {
    const part = JSON.parse(event.data);
    const place = shown.querySelector(`.live-text[data-step="${Number(part.step)}"]`);
    if (!place) return;
    if (place.dataset.attempt !== String(part.attempt)) { // the answer begins again: a worker was lost, or a try failed
      place.textContent = "";
      place.dataset.attempt = part.attempt;
    }
    place.append(part.text);
  });
  for (const kind of ["run", "step", "message", "effect", "approval", "compaction", "cancel"]) {
    events.addEventListener(kind, soon);
  }
})();
