SwaggerUIBundle({
  domNode: document.getElementById("api"),
  url: document.getElementById("api").dataset.schema,
  deepLinking: true,
  defaultModelsExpandDepth: -1, // the operations show their members
  validatorUrl: null, // nothing leaves this server
});
