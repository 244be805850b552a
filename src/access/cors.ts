/**
 * Cross-origin rules of the client plane: which origins may read answers, and the two header
 * blocks that say so. Blocks are built once per allowed origin, because an origin list is short and requests are many.
 */
/** Every header of an answer that a browser client may look at. */
const EXPOSED_HEADERS = [
  ...['Stream-Next-Offset', 'Stream-Cursor', 'Stream-Up-To-Date', 'Stream-Closed', 'Stream-Seq', 'Stream-TTL'],
  ...['Stream-Expires-At', 'Stream-Extensions', 'Stream-Record-First', 'Stream-Record-Start', 'Stream-Record-Next'],
  ...['Stream-Retained-Offset', 'Stream-Cold-Hot-Start-Offset', 'Stream-Snapshot-Offset', 'Stream-Snapshot-Digest'],
  ...['Stream-SSE-Data-Encoding', 'Stream-Data-Content-Type', 'Stream-Incarnation'],
  ...['Producer-Epoch', 'Producer-Seq', 'Producer-Expected-Seq', 'Producer-Received-Seq'],
  ...['ETag', 'Location', 'Retry-After', 'Millrace-Error', 'X-Request-Id', 'Allow'],
  'WWW-Authenticate',
  ...['Content-Type', 'Content-Encoding', 'Vary'],
].join(', ');

/** Every header that a request may carry across origins. */
const REQUEST_HEADERS = [
  ...[
    'Content-Type',
    'Authorization',
    'Accept',
    'If-Match',
    'If-None-Match',
    'Cache-Control',
    'Last-Event-ID',
    'Prefer',
  ],
  ...['traceparent', 'tracestate', 'baggage', 'X-Request-Id'],
  ...['Stream-Seq', 'Stream-TTL', 'Stream-Expires-At', 'Stream-Closed', 'Stream-Attrs', 'Stream-Record-Match'],
  'Stream-Expected-Offset',
  ...['Stream-Snapshot-Match', 'Stream-Cursor', 'Stream-Forked-From', 'Stream-Fork-Offset', 'Stream-Fork-Sub-Offset'],
  ...['Producer-Id', 'Producer-Epoch', 'Producer-Seq'],
].join(', ');

/** A browser may keep a preflight this long; the allowed set only changes with a release. */
const PREFLIGHT_SECONDS = 86_400;

function preflightOf(methods: string): string {
  return [
    `access-control-allow-methods: ${methods}`,
    `access-control-allow-headers: ${REQUEST_HEADERS}`,
    `access-control-max-age: ${PREFLIGHT_SECONDS}`,
  ].join('\r\n');
}

/** The header lines of one answer that are about origins, joined by CRLF; empty when nothing is to be said. */
export interface CorsBlocks {
  /** For every ordinary answer. */
  readonly answer: string;
  /** As `answer`, for answers that a cache gives to others too: what depends on the origin is said, or sent to all. */
  readonly shared: string;
  /** Added to the 204 of a preflight. */
  readonly preflight: string;
}

/** A page of this host's loopback, as an Origin header writes it. */
const LOOPBACK_ORIGIN = /^https?:\/\/(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?$/;

/** Origins of the loopback are many (every port), so their blocks are made when they come, and so many are kept. */
const LOOPBACK_BLOCKS_MAX = 64;

/** They stand for more than one origin. */
const NAMES: ReadonlySet<string> = new Set(['*', 'loopback']);

export class CorsPolicy {
  /** False when every request gets the same. */
  readonly readsOrigin: boolean;
  readonly #any: CorsBlocks | undefined;
  readonly #allowed: Map<string, CorsBlocks>;
  readonly #loopback: Map<string, CorsBlocks> | undefined;
  /** For a request without Origin, or from one that is not allowed. */
  readonly #none: CorsBlocks;
  readonly #preflight: string;

  /** `*`: any; `loopback`: those of this host, whatever their port. `methods`: those of the plane's routes. */
  constructor(origins: readonly string[], methods: string) {
    const preflight = preflightOf(methods);
    const blocks = (origin: string): CorsBlocks => blocksOf(origin, preflight);
    this.#preflight = preflight;
    this.#any = origins.includes('*') ? blocks('*') : undefined;
    this.#loopback = origins.includes('loopback') ? new Map() : undefined;
    this.#allowed = new Map(origins.filter((one) => !NAMES.has(one)).map((origin) => [origin, blocks(origin)]));
    this.readsOrigin = origins.length > 0;
    // Without the origin browsers go no further; what it could ask for is no secret.
    const none = noneAnswer(origins);
    this.#none = { answer: none, shared: this.#any?.answer ?? none, preflight: origins.length === 0 ? '' : preflight };
  }

  /** Pages from anywhere may do everything that their user may. */
  get allowsAny(): boolean {
    return this.#any !== undefined;
  }

  allows(origin: string): boolean {
    return origin !== '' && this.blocksFor(origin) !== this.#none;
  }

  /** `origin` is empty when the request has no Origin header. Equal origins get the same object while it is kept. */
  blocksFor(origin: string): CorsBlocks {
    if (origin === '') return this.#none;
    return this.#any ?? this.#allowed.get(origin) ?? this.#loopbackBlocks(origin) ?? this.#none;
  }

  #loopbackBlocks(origin: string): CorsBlocks | undefined {
    const kept = this.#loopback;
    if (kept === undefined || !LOOPBACK_ORIGIN.test(origin)) return undefined;
    const known = kept.get(origin);
    if (known !== undefined) return known;
    if (kept.size >= LOOPBACK_BLOCKS_MAX) kept.clear();
    const made = blocksOf(origin, this.#preflight);
    kept.set(origin, made);
    return made;
  }
}

/**
 * Only browsers send Origin, and only they need the list of exposed headers: half a KiB that would double the size of
 * the answer to an append. With a list of origins, answers differ by origin, and caches must know that of refusals too.
 */
function noneAnswer(origins: readonly string[]): string {
  if (origins.includes('*')) return 'access-control-allow-origin: *';
  return origins.length === 0 ? '' : 'vary: Origin';
}

function blocksOf(origin: string, preflight: string): CorsBlocks {
  const lines = [`access-control-allow-origin: ${origin}`, `access-control-expose-headers: ${EXPOSED_HEADERS}`];
  if (origin !== '*') lines.push('vary: Origin');
  const answer = lines.join('\r\n');
  return { answer, shared: answer, preflight };
}
