// The search of the frame: its keys, and the list that opens below it. Without script, Enter opens the page of results.
(() => {
  const showCurrent = () => { // on a phone, the rows scroll
    for (const current of document.querySelectorAll(".shell-sections [aria-current], .shell-pages [aria-current]")) {
      current.parentElement.scrollLeft = current.offsetLeft - current.parentElement.offsetLeft - 40;
    }
  };
  showCurrent();
  document.querySelector(".waiting-count")?.addEventListener("htmx:afterSettle", showCurrent, { once: true }); // it takes room
  for (const table of document.querySelectorAll(".people")) { // on a phone, each row is a card, its cells named
    const names = [...table.tHead.rows[0].cells].map((cell) => cell.textContent.trim());
    for (const cell of table.querySelectorAll("tbody td")) cell.dataset.label = names[cell.cellIndex];
    table.classList.add("cards");
  }
  const field = document.getElementById("shell-q");
  const found = document.getElementById("shell-found");
  if (!field || !found) return;
  const form = field.form;
  const close = () => found.replaceChildren();

  document.addEventListener("keydown", (event) => {
    const isCommand = (event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k";
    const isSlash = event.key === "/" && !event.metaKey && !event.ctrlKey && !event.altKey
      && !event.target.closest("input, textarea, select, [contenteditable]");
    if (!isCommand && !isSlash) return;
    event.preventDefault();
    const shown = field.offsetParent ? field : document.getElementById("page-q");
    if (!shown) return location.assign(form.action); // on a phone, the search is a page
    shown.focus();
    shown.select();
  });

  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      close();
      field.value = "";
      field.blur();
    }
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const stops = [field, ...found.querySelectorAll("a")];
    const next = stops[stops.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1)];
    if (!next) return;
    event.preventDefault();
    next.focus();
  });

  document.addEventListener("click", (event) => {
    if (!form.contains(event.target)) close();
    for (const menu of document.querySelectorAll(".shell-menu[open]")) {
      if (!menu.contains(event.target)) menu.open = false;
    }
  });
})();
