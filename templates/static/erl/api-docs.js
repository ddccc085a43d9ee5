const theme = localStorage.getItem("theme"); // as chosen in the admin
const isDark = theme === "dark" || (theme !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
document.documentElement.classList.toggle("dark-mode", isDark);
SwaggerUIBundle({
  domNode: document.getElementById("api"),
  url: document.getElementById("api").dataset.schema,
  deepLinking: true,
  defaultModelsExpandDepth: -1, // the operations show their members
  validatorUrl: null, // nothing leaves this server
});
