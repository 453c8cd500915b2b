// It is loaded before Portkey.

import net from "node:net";

// Portkey listens on all addresses. Here it listens on loopback only.
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, _, done) {
  return listen.call(this, port, "127.0.0.1", done);
};

// Portkey adds headers to what fetch returns. Node forbids that, and streams fail:
// https://github.com/Portkey-AI/gateway/issues/1550
const { fetch, Response } = globalThis;
globalThis.fetch = async (...args) => {
  const answer = await fetch(...args);
  return new Response(answer.body, answer);
};
