// A reverse proxy that does to answers what the official client suite asks for: it talks to its server at
// POST and DELETE /_test/inject-error, and Millrace has no such route.
import { type IncomingMessage, type Server, type ServerResponse, createServer, request } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

/** The suite's streams are at the root of its server. */
const PREFIX = '/v1/stream';
const CONTROL_PATH = '/_test/inject-error';
const CONTROL_BYTES_MAX = 64 * 1024;
/** A corrupted answer begins with it: never JSON. */
const BROKEN = Buffer.from('XY');

/** By the names of the suite. */
interface Fault {
  readonly path: string;
  readonly status?: number;
  readonly count?: number;
  readonly retryAfter?: number;
  readonly delayMs?: number;
  readonly jitterMs?: number;
  readonly dropConnection?: boolean;
  readonly truncateBodyBytes?: number;
  readonly corruptBody?: boolean;
  readonly probability?: number;
  readonly method?: string;
  readonly injectSseEvent?: { readonly eventType: string; readonly data: string };
}

export class FaultProxy {
  readonly #target: number;
  readonly #faults = new Map<string, { readonly fault: Fault; left: number }>();
  readonly #server: Server;

  constructor(targetPort: number) {
    this.#target = targetPort;
    this.#server = createServer((req, res) => {
      this.#handle(req, res).catch(() => res.destroy());
    });
  }

  async listen(): Promise<number> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', () => resolve()));
    return (this.#server.address() as AddressInfo).port;
  }

  close(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }

  async #handle(req: IncomingMessage, res: ServerResponse): Promise<void> {
    const path = new URL(req.url ?? '/', 'http://proxy').pathname;
    if (path === CONTROL_PATH) return await this.#control(req, res);
    const isStream = new URL(req.url ?? '/', 'http://proxy').searchParams.get('live') === 'sse';
    const fault = this.#take(path, req.method ?? 'GET', isStream);
    if (fault?.delayMs !== undefined) await delay(fault.delayMs + Math.random() * (fault.jitterMs ?? 0));
    if (fault?.dropConnection === true) return void req.socket.destroy();
    if (fault?.status !== undefined) {
      const retry = fault.retryAfter === undefined ? {} : { 'retry-after': String(fault.retryAfter) };
      return void res.writeHead(fault.status, { 'content-type': 'text/plain', ...retry }).end('injected\n');
    }
    return this.#pass(req, res, fault);
  }

  async #control(req: IncomingMessage, res: ServerResponse): Promise<void> {
    if (req.method === 'DELETE') this.#faults.clear();
    else {
      let text = '';
      for await (const piece of req.setEncoding('utf8') as AsyncIterable<string>) {
        text += piece;
        if (text.length > CONTROL_BYTES_MAX) return void res.writeHead(413).end();
      }
      const fault = JSON.parse(text) as Fault;
      this.#faults.set(fault.path, { fault, left: fault.count ?? 1 });
    }
    res.writeHead(200).end();
  }

  /** The fault for this request, used up by it. */
  #take(path: string, method: string, isStream: boolean): Fault | undefined {
    const entry = this.#faults.get(path);
    if (entry === undefined) return undefined;
    const { method: only, probability = 1 } = entry.fault;
    if (only !== undefined && only.toUpperCase() !== method.toUpperCase()) return undefined;
    // Clients that fetch first and then listen would use it up too early.
    if (entry.fault.injectSseEvent !== undefined && !isStream) return undefined;
    if (Math.random() > probability) return undefined;
    if (--entry.left <= 0) this.#faults.delete(path);
    return entry.fault;
  }

  #pass(req: IncomingMessage, res: ServerResponse, fault: Fault | undefined): void {
    const { method, url, headers } = req;
    const path = `${PREFIX}${url}`;
    const upstream = request({ host: '127.0.0.1', port: this.#target, method, path, headers }, (answer) => {
      void relay(answer, res, fault).catch(() => res.destroy());
    });
    upstream.on('error', () => res.destroy());
    res.on('close', () => upstream.destroy());
    req.pipe(upstream);
  }
}

async function relay(answer: IncomingMessage, res: ServerResponse, fault: Fault | undefined): Promise<void> {
  const headers = { ...answer.headers };
  const { truncateBodyBytes: most, corruptBody, injectSseEvent: event } = fault ?? {};
  // A cut or changed answer is a whole one to the client, as from a broken server: it does not look truncated on the
  // way.
  const isWhole = most !== undefined || corruptBody === true;
  if (isWhole || event !== undefined) delete headers['content-length'];
  res.writeHead(answer.statusCode ?? 502, headers);
  if (!isWhole) {
    if (event !== undefined) res.write(`event: ${event.eventType}\ndata: ${event.data}\n\n`);
    answer.pipe(res);
    answer.on('error', () => res.destroy());
    return;
  }
  const pieces: Buffer[] = [];
  for await (const piece of answer as AsyncIterable<Buffer>) pieces.push(piece);
  let body = Buffer.concat(pieces);
  if (most !== undefined) body = body.subarray(0, most);
  if (corruptBody === true && body.length > 0) body = Buffer.concat([BROKEN, body.subarray(BROKEN.length)]);
  res.end(body);
}
