/**
 * The JavaScript of one append on the main thread, with a library and a shard that do nothing: 500 requests arrive,
 * their frames are read back, their answers are written. `node dist/bench/micro/append.js [--smoke]
 * [--token | --scopes]`: with the token of the plane, or with one of a list. Figures are the lowest of all rounds: other
 * work on the machine only adds to them.
 */
import { createHash } from 'node:crypto';
import { ClientPolicy, RequestAdmission } from '../../src/access/admission.ts';
import { HttpNode, HttpServerContext } from '../../src/http/server-context.ts';
import { StaticTokens } from '../../src/access/static-tokens.ts';
import { CorsPolicy } from '../../src/access/cors.ts';
import { ClientRouter } from '../../src/http/router.ts';
import { bindRows } from '../../src/http/routes/table.ts';
import { serve } from '../../src/http/server.ts';
import type { UwsApp, UwsRequest, UwsResponse } from '../../src/http/uws.ts';
import { Gateway } from '../../src/gateway/gateway.ts';
import { QuotaGate } from '../../src/gateway/quota-gate.ts';
import { assert } from '../../src/base/assert.ts';
import { createRing, RingReader, RingWriter } from '../../src/mailbox/ring.ts';
import { TransferReceiver, TransferSender, createTransferChannel } from '../../src/mailbox/transfer-channel.ts';
import { Waker } from '../../src/mailbox/wake.ts';
import { Reply } from '../../src/protocol/reply.ts';
import { REQUEST } from '../../src/protocol/request.ts';
import { newOperations } from '../../test/http/planes.ts';
import { testContext } from '../../test/http/test-context.ts';
import { ScriptedGateway } from '../../test/support/scripted-gateway.ts';

const CONNECTIONS = 500;
const BODY_BYTES = 256;
const RING_BYTES = 1024 * 1024;
const ROUNDS = process.argv.includes('--smoke') ? 20 : 2000;
const hasToken = process.argv.includes('--token');
const hasScopes = process.argv.includes('--scopes');
const TOKEN = '0123456789abcdef'.repeat(4);
const HEADERS = [
  ['host', '127.0.0.1'],
  ['content-type', 'application/octet-stream'],
  ['content-length', String(BODY_BYTES)],
  ...(hasToken || hasScopes ? [['authorization', `Bearer ${TOKEN}`] as const] : []),
] as const;

class FakeResponse {
  static answered = 0;
  take: (chunk: ArrayBuffer, last: boolean) => void = () => undefined;

  cork(write: () => void): this {
    write();
    return this;
  }
  onAborted(): this {
    return this;
  }
  onData(take: (chunk: ArrayBuffer, last: boolean) => void): this {
    this.take = take;
    return this;
  }
  writeStatus(): this {
    return this;
  }
  writeHeader(): this {
    return this;
  }
  endWithoutBody(): this {
    FakeResponse.answered++;
    return this;
  }
}

/** A string of its own, as the library makes them: V8 has not seen its hash yet. */
const fresh = (text: string): string => Buffer.from(text).toString('latin1');

class FakeRequest {
  readonly #url: string;
  readonly #headers = HEADERS.map(([name, value]) => [fresh(name), fresh(value)] as const);

  constructor(url: string) {
    this.#url = fresh(url);
  }

  getMethod(): string {
    return 'post';
  }
  getUrl(): string {
    return this.#url;
  }
  forEach(take: (name: string, value: string) => void): void {
    for (const [name, value] of this.#headers) take(name, value);
  }
}

type Handler = (res: UwsResponse, req: UwsRequest) => unknown;

/** The app that serve() registers with, as far as appends need it. */
class FakeApp {
  handler: Handler = () => undefined;

  post(_pattern: string, handler: Handler): this {
    this.handler = handler;
    return this;
  }

  any(): this {
    return this;
  }
}

const requestSab = createRing(RING_BYTES);
const replySab = createRing(RING_BYTES);
const [into, out] = [createTransferChannel(RING_BYTES), createTransferChannel(RING_BYTES)];
const link = {
  requests: new RingWriter(requestSab),
  requestSab,
  requestTransfers: new TransferSender(into.sendPort, into.shared),
  replies: new RingReader(replySab),
  replyTransfers: new TransferReceiver(out.receivePort, out.shared),
};
const monotonicMs = (): number => performance.now();
const fail = (error: unknown): never => {
  throw error;
};
const shards = new Gateway(16, [link], fail);
const server = new HttpServerContext(
  new HttpNode(
    testContext(shards, {
      monotonicMs,
      writes: new QuotaGate(shards, monotonicMs, fail),
      settings: { corsOrigins: ['loopback'] },
      logError: fail,
    }),
  ),
);
const cors = new CorsPolicy(['loopback'], 'POST');
const router = new ClientRouter(
  bindRows('client', { ...newOperations(new ScriptedGateway()), knows: () => false }),
  shards,
);
const hosts = server.settings.clientHosts;
const policy = new ClientPolicy({ hosts, cors, hasToken: hasToken || hasScopes, routes: router });
const sha256 = createHash('sha256').update(TOKEN).digest('hex');
const scopes = [{ bucket: 'bench', streams: 'stream-*', operations: ['append'] }] as const;
const list = { tokens: [{ id: 'bench', sha256, expiresAtMs: Date.now() + 3_600_000, scopes }], revoked: [] };
const book = hasScopes ? new StaticTokens(list) : undefined;
const app = new FakeApp();
serve(app as unknown as UwsApp, {
  server,
  cors,
  router,
  admission: new RequestAdmission({ policy, token: hasToken ? TOKEN : '', book, routes: router }),
});

const reader = new RingReader(requestSab);
const writer = new RingWriter(replySab);
const waker = new Waker(replySab);
const reply = new Reply();
let tail = 0;

/** Answers all requests. Returns when it began to wake the main thread. */
function answer(): bigint {
  while (reader.next()) {
    reply.reset(REQUEST.fields.slot.get(reader.view, reader.offset));
    reply.nextOffset = tail += BODY_BYTES;
    const at = writer.reserve(reply.bytesMax());
    assert(at >= 0, 'the ring holds the answers of all connections');
    writer.commit(reply.write(writer.bytes, writer.view, at));
  }
  reader.release();
  const beganNs = process.hrtime.bigint();
  if (writer.publish()) waker.wake();
  return beganNs;
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const lowest = { requests: Infinity, answers: Infinity };
const urls = Array.from({ length: CONNECTIONS }, (_, i) => `/bench/stream-${i}`);
const chunk = new ArrayBuffer(BODY_BYTES);

for (let round = 0; round < ROUNDS; round++) {
  const requests = urls.map((url) => new FakeRequest(url));
  const responses = urls.map(() => new FakeResponse());
  const startNs = process.hrtime.bigint();
  for (let i = 0; i < CONNECTIONS; i++) {
    const res = responses[i];
    app.handler(res as unknown as UwsResponse, requests[i] as unknown as UwsRequest);
    res?.take(chunk, true);
  }
  lowest.requests = Math.min(lowest.requests, Number(process.hrtime.bigint() - startNs));
  await turn();
  FakeResponse.answered = 0;
  const wokenNs = answer();
  while (FakeResponse.answered < CONNECTIONS) await turn();
  lowest.answers = Math.min(lowest.answers, Number(process.hrtime.bigint() - wokenNs));
}

const perAppend = (ns: number): string => (ns / CONNECTIONS).toFixed(0);
console.log(
  `one append, ${CONNECTIONS} under way: ${perAppend(lowest.requests)} ns until its frame is in the ring, ${perAppend(lowest.answers)} ns for its answer`,
);
shards.close();
process.exit(0);
