// Pages that are read from a folder (file://) may start no worker: the search's runs in a hidden frame instead.
// mkdocs-material's plug-in `offline` would load such a script from the network; this one is part of the site.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.appendChild(this.frame);
      const inner = this.frame.contentWindow;
      addEventListener("message", (event) => {
        if (event.source === inner) {
          const told = new MessageEvent("message", { data: event.data });
          this.dispatchEvent(told);
          if (this.onmessage) this.onmessage(told);
        }
      });
      const page = inner.document;
      page.open();
      // a function of the frame posts, so that the frame is the message's source
      page.write('<!doctype html><body><script>postMessage = (data) => parent.postMessage(data, "*")</script></body>');
      page.close();
      inner.importScripts = (...urls) => urls.reduce((before, one) => before.then(() => load(one)), Promise.resolve());
      const load = (source) =>
        new Promise((done, failed) => {
          const script = page.createElement("script");
          script.src = source;
          script.onload = done;
          script.onerror = failed;
          page.body.appendChild(script);
        });
      this.ready = load(url);
      this.inner = inner;
    }
    postMessage(data) {
      this.ready.then(() => this.inner.dispatchEvent(new this.inner.MessageEvent("message", { data })));
    }
    terminate() {
      this.frame.remove();
    }
  };
}
