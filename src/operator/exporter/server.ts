/**
 * `millracectl exporter`: `/metrics` of the whole cluster for scrapers, and `/healthz` of the exporter itself.
 *
 * Scrapers are let in as on the nodes' planes: with a token it has to be right; without one, on loopback, the Host header must name
 * this address, because a web page can give its own name the address of this host. `/healthz` is for probes and needs neither.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import { type IncomingMessage, type Server, type ServerResponse, createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Address, formatAddress, parseAddress } from '../../base/address.ts';
import { Failure, reasonOf } from '../failure.ts';
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
const HEADERS_BYTES_MAX = 16 * 1024;
const HEADERS_TIMEOUT_MS = 10_000;
const LOOPBACK = /^(127(\.\d{1,3}){3}|::1|localhost)$/;

export function isLoopback(host: string): boolean {
  return LOOPBACK.test(host);
}

export class ExporterServer {
  readonly #options: ExporterOptions;
  readonly #server: Server;
  /** Texts of one scrape, made once for those that share it. */
  readonly #texts = new WeakMap<readonly NodeAnswer[], Map<Format, Promise<string>>>();
  #host = '';

  constructor(options: ExporterOptions) {
    this.#options = options;
    const limits = {
      ...{ maxHeaderSize: HEADERS_BYTES_MAX, headersTimeout: HEADERS_TIMEOUT_MS, requestTimeout: HEADERS_TIMEOUT_MS },
      connectionsCheckingInterval: HEADERS_TIMEOUT_MS,
    };
    this.#server = createServer(limits, (request, response) => {
      this.#answer(request, response).catch((error: unknown) => {
        if (response.headersSent) response.destroy();
        else say(response, 500, `a fault of the exporter: ${reasonOf(error)}`);
      });
    });
    this.#server.maxConnections = CONNECTIONS_MAX;
  }

  /** Resolves to the address, with the port that was taken. */
  async listen(address: Address): Promise<Address> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', (error) =>
        reject(new Failure(`cannot listen on ${formatAddress(address)}: ${reasonOf(error)}`)),
      );
      this.#server.listen(address, resolve);
    });
    this.#host = address.host;
    return { host: address.host, port: (this.#server.address() as AddressInfo).port };
  }

  async close(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
      this.#server.closeAllConnections();
    });
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { method = '', headers } = request;
    const path = (request.url ?? '').split('?', 1)[0];
    // No route takes a body; one that comes is not kept.
    request.resume();
    if (path !== '/metrics' && path !== '/healthz') return say(response, 404, 'the routes are /metrics and /healthz');
    if (method !== 'GET' && method !== 'HEAD') {
      response.setHeader('allow', 'GET, HEAD');
      return say(response, 405, 'the method is not supported here; see Allow');
    }
    if (path === '/healthz') return say(response, 200, 'ok');
    const { token, scraper } = this.#options;
    if (token !== undefined && !isSame(headers.authorization ?? '', `Bearer ${token}`)) {
      response.setHeader('www-authenticate', 'Bearer');
      return say(response, 401, 'the bearer token is missing or wrong; --scrape-token-file names the right one');
    }
    if (token === undefined && !this.#knowsHost(headers.host ?? ''))
      return say(
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

/** Compares digests, so that time tells nothing of the length either. */
function isSame(sent: string, right: string): boolean {
  const digest = (text: string): Buffer => createHash('sha256').update(text).digest();
  return timingSafeEqual(digest(sent), digest(right));
}

function say(response: ServerResponse, status: number, sentence: string): void {
  response.writeHead(status, {
    'content-type': 'text/plain; charset=utf-8',
    'cache-control': 'no-store',
    'x-content-type-options': 'nosniff',
  });
  response.end(`${sentence}\n`);
}
