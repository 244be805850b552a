/**
 * `millracectl console`: the page for a whole cluster, and behind it the nodes' admin planes.
 *
 *   GET /                        the page; it holds no secret
 *   GET /console/nodes           the nodes of the cluster file
 *   ANY /nodes/{id}/__svc/...    passed on to the node's admin plane, with the tool's token
 *
 * Callers are checked before anything else: the Host header must name this address (a page can give
 * its own name the address of this host), a browser must say that the request comes from this very
 * page, and everything but the page needs the key that the tool printed. Other users of the host reach
 * the port too, and would have the tool's token without it.
 */
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import { type Address, formatAddress } from '../../base/address.ts';
import type { ConsolePage } from '../built-page.ts';
import type { ClusterNode } from '../../nodes/cluster-file.ts';
import { Failure, reasonOf } from '../../nodes/failure.ts';
import type { ClientOptions } from '../../nodes/http-client.ts';
import { HEAD_LIMITS, answerText, closeServer, isSameSecret, listenOn } from '../../nodes/http-server.ts';
import { NotPassedOn, passOn } from './proxy.ts';

export interface ConsoleOptions {
  /** How the cluster file is called. */
  readonly label: string;
  readonly nodes: readonly ClusterNode[];
  readonly page: ConsolePage;
  readonly client: ClientOptions;
  /** Callers send it as a bearer token. */
  readonly key: string;
}

/** One page asks each node once a second and waits for a live tail; several tabs are open. */
const REQUESTS_MAX = 128;
const METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'POST', 'PUT', 'DELETE']);
const PATH = /^\/nodes\/(\d{1,10})(\/__svc\/[!-~]*)$/;

export class ConsoleServer {
  readonly #options: ConsoleOptions;
  readonly #server: Server;
  #hosts: ReadonlySet<string> = new Set();
  #running = 0;

  constructor(options: ConsoleOptions) {
    this.#options = options;
    this.#server = createServer(HEAD_LIMITS, (request, response) => this.#handle(request, response));
  }

  /** Resolves to the address, with the port that was taken. */
  async listen(address: Address): Promise<Address> {
    const taken = await listenOn(this.#server, address);
    this.#hosts = new Set(
      ['127.0.0.1', 'localhost', '::1', taken.host].map((host) => formatAddress({ ...taken, host })),
    );
    return taken;
  }

  close(): Promise<void> {
    return closeServer(this.#server);
  }

  #handle(request: IncomingMessage, response: ServerResponse): void {
    if (this.#running >= REQUESTS_MAX) {
      response.setHeader('retry-after', '1');
      return answerText(
        response,
        503,
        `${REQUESTS_MAX} requests are under way, which is the bound; close a tab, or try again`,
      );
    }
    this.#running++;
    response.once('close', () => this.#running--);
    this.#route(request, response).catch((error: unknown) => {
      if (response.headersSent) response.destroy();
      else answerText(response, statusOf(error), reasonOf(error));
    });
  }

  async #route(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', url = '', headers } = request;
    const foreign = this.#foreign(request);
    if (foreign !== undefined) return answerText(response, foreign.status, foreign.reason);
    if (url === '/' || url.startsWith('/?')) return this.#page(request, response);
    if (!isSameSecret(headers.authorization ?? '', `Bearer ${this.#options.key}`)) {
      response.setHeader('www-authenticate', 'Bearer');
      return answerText(
        response,
        401,
        'the key is missing or wrong: open the address that millracectl console printed',
      );
    }
    if (url === '/console/nodes' && method === 'GET') return this.#nodes(response);
    const [, id, path] = PATH.exec(url) ?? [];
    if (path === undefined) return answerText(response, 404, 'no such route');
    if (!METHODS.has(method)) return answerText(response, 405, 'the method is not supported here');
    const node = this.#options.nodes.find((one) => one.id === Number(id));
    if (node === undefined) return answerText(response, 404, `node ${id} is not in ${this.#options.label}`);
    return await passOn({ node, path, client: this.#options.client }, request, response);
  }

  #foreign({
    method = '',
    headers,
  }: IncomingMessage): { readonly status: number; readonly reason: string } | undefined {
    const { host = '', origin, 'sec-fetch-site': site } = headers;
    if (!this.#hosts.has(host.toLowerCase())) {
      return { status: 421, reason: `${JSON.stringify(host.slice(0, 80))} is not where this console listens` };
    }
    const isSafe = method === 'GET' || method === 'HEAD';
    const isOwn = origin === undefined || origin === `http://${host}`;
    const isSame = site === undefined || site === 'same-origin' || (site === 'none' && isSafe);
    return isOwn && isSame ? undefined : { status: 403, reason: 'the console takes requests of its own page only' };
  }

  #page({ method, headers }: IncomingMessage, response: ServerResponse): void {
    if (method !== 'GET' && method !== 'HEAD') {
      response.setHeader('allow', 'GET, HEAD');
      return answerText(response, 405, 'the method is not supported here; see Allow');
    }
    const { page } = this.#options;
    for (const [name, value] of page.headers) response.setHeader(name, value);
    response.setHeader('x-content-type-options', 'nosniff');
    response.setHeader('cache-control', 'no-cache');
    response.setHeader('etag', page.plain.etag);
    response.writeHead(headers['if-none-match'] === page.plain.etag ? 304 : 200);
    if (response.statusCode === 304 || method === 'HEAD') response.end();
    else response.end(page.plain.bytes);
  }

  #nodes(response: ServerResponse): void {
    const { label, nodes } = this.#options;
    const shown = nodes.map(({ id, host, name, adminUrl }) => ({ id, host, name, admin_url: adminUrl }));
    response.writeHead(200, { 'content-type': 'application/json', 'cache-control': 'no-store' });
    response.end(JSON.stringify({ label, nodes: shown }));
  }
}

function statusOf(error: unknown): number {
  if (error instanceof NotPassedOn) return error.status;
  return error instanceof Failure ? 502 : 500;
}
