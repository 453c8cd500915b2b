document.title = `Console of ${document.documentElement.dataset.api}`;
