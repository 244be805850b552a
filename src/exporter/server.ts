/**
 * `millracectl exporter`: `/metrics` of the whole cluster for scrapers, and `/healthz` of the exporter itself.
 *
 * Scrapers are let in as on the nodes' planes: with a token it has to be right; without one, on
 * loopback, the Host header must name this address, because a web page can give its own name the address
 * of this host. `/healthz` is for probes and needs neither.
 */
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import { type Address, isLoopback, parseAddress } from '../base/address.ts';
import { reasonOf } from '../nodes/failure.ts';
import { HEAD_LIMITS, answerText, closeServer, isSameSecret, listenOn } from '../nodes/http-server.ts';
import { CONTENT_TYPES, type Format, formatFor, render } from './render.ts';
import type { NodeAnswer, Scraper } from './scrape.ts';

export interface ExporterOptions {
  readonly scraper: Scraper;
  /** Scrapers send it as a bearer token. Undefined: they need none. */
  readonly token: string | undefined;
  /** How long a client may take for its answer; TAKING_MS when left out. */
  readonly takingMs?: number;
}

/** Scrapers are few, and all share one look at the nodes. */
const CONNECTIONS_MAX = 64;
/** Scrapers give up before. Clients that read nothing would otherwise hold all connections and keep scrapers out. */
const TAKING_MS = 30_000;
export class ExporterServer {
  readonly #options: ExporterOptions;
  readonly #server: Server;
  /** Texts of one scrape, made once for those that share it. */
  readonly #texts = new WeakMap<readonly NodeAnswer[], Map<Format, Promise<string>>>();
  #host = '';

  constructor(options: ExporterOptions) {
    this.#options = options;
    const { headersTimeout } = HEAD_LIMITS;
    const limits = { ...HEAD_LIMITS, requestTimeout: headersTimeout, connectionsCheckingInterval: headersTimeout };
    this.#server = createServer(limits, (request, response) => {
      this.#answer(request, response).catch((error: unknown) => {
        if (response.headersSent) response.destroy();
        else answerText(response, 500, `a fault of the exporter: ${reasonOf(error)}`);
      });
    });
    this.#server.maxConnections = CONNECTIONS_MAX;
  }

  /** Resolves to the address, with the port that was taken. */
  async listen(address: Address): Promise<Address> {
    this.#host = address.host;
    return await listenOn(this.#server, address);
  }

  close(): Promise<void> {
    return closeServer(this.#server);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', headers } = request;
    const path = (request.url ?? '').split('?', 1)[0];
    // No route takes a body; one that comes is not kept.
    request.resume();
    if (path !== '/metrics' && path !== '/healthz')
      return answerText(response, 404, 'the routes are /metrics and /healthz');
    if (method !== 'GET' && method !== 'HEAD') {
      response.setHeader('allow', 'GET, HEAD');
      return answerText(response, 405, 'the method is not supported here; see Allow');
    }
    if (path === '/healthz') return answerText(response, 200, 'ok');
    const { token, scraper } = this.#options;
    if (token !== undefined && !isSameSecret(headers.authorization ?? '', `Bearer ${token}`)) {
      response.setHeader('www-authenticate', 'Bearer');
      return answerText(response, 401, 'the bearer token is missing or wrong; --scrape-token-file names the right one');
    }
    if (token === undefined && !this.#knowsHost(headers.host ?? ''))
      return answerText(
        response,
        421,
        `${JSON.stringify(headers.host?.slice(0, 80) ?? '')} is not where this exporter listens`,
      );
    const answers = await scraper.scrape();
    const format = formatFor(headers.accept ?? '');
    const text = await this.#text(answers, format);
    // Not the library's timeout, which every byte of the client restarts.
    const giveUp = setTimeout(() => response.destroy(), this.#options.takingMs ?? TAKING_MS).unref();
    response.once('close', () => clearTimeout(giveUp));
    response.writeHead(200, { 'content-type': CONTENT_TYPES[format], 'cache-control': 'no-store', vary: 'accept' });
    response.end(method === 'HEAD' ? undefined : text);
  }

  #text(answers: readonly NodeAnswer[], format: Format): Promise<string> {
    const texts = this.#texts.get(answers) ?? new Map<Format, Promise<string>>();
    this.#texts.set(answers, texts);
    const text = texts.get(format) ?? render(answers, format);
    texts.set(format, text);
    return text;
  }

  #knowsHost(written: string): boolean {
    if (!isLoopback(this.#host)) return true;
    const name = (parseAddress(written)?.host ?? written.replace(/^\[|\]$/g, '')).toLowerCase();
    return isLoopback(name);
  }
}
