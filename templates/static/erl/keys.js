// Keys of a page: each presses the button that names it in aria-keyshortcuts. All of them work without script too.
(() => {
  const on = document.getElementById("keyboard-on");
  if (!on) return;
  const buttons = [...document.querySelectorAll("button[aria-keyshortcuts]")];
  let gone = false; // something is being sent: ignore further keys

  document.addEventListener("submit", (event) => {
    if (gone) event.preventDefault();
    gone = true;
  });
  window.addEventListener("pageshow", () => { gone = false; });

  document.addEventListener("keydown", (event) => {
    if (!on.checked || gone || event.repeat || event.altKey || event.metaKey || event.ctrlKey) return;
    if (event.target.closest("textarea, select, input:not([type=radio]):not([type=checkbox])")) return;
    const button = buttons.find((each) => each.getAttribute("aria-keyshortcuts") === event.key);
    if (!button) return;
    event.preventDefault();
    button.click();
  });

  on.checked = localStorage.getItem("erl-keys") !== "off";
  const showKeys = () => document.body.classList.toggle("has-keys", on.checked);
  on.addEventListener("change", () => {
    localStorage.setItem("erl-keys", on.checked ? "on" : "off");
    showKeys();
  });
  showKeys();
  document.querySelector(".keys-say").hidden = false;
})();
