/**
 * Keys that a server publishes (a JWKS), fetched again and again. Those of the last answer stay in force while the server
 * is down, slow or talks nonsense, for a day: its failures end no reader and no session.
 */
import { caughtMessage } from '../base/caught.ts';
import { JWKS_BYTES_MAX } from '../base/limits.ts';
import type { JwtKey } from '../base/jwt-key.ts';
import type { Runtime } from '../base/runtime.ts';
import { parseJwks } from '../config/jwt-keys.ts';
import { CallEnd, wholeOf } from '../nodes/http-client.ts';

const MINUTE_MS = 60_000;
/** A key that was withdrawn opens nothing after this. */
const FETCH_EVERY_MS = 5 * MINUTE_MS;
/** After a failure, and twice as long each time up to a minute. */
const RETRY_MS_MIN = 1000;
const RETRY_MS_MAX = MINUTE_MS;
/** Tokens with unknown keys cause a fetch at most this often, however many clients send them. */
const ASKED_AGAIN_MS = 30_000;
const ANSWER_MS_MAX = 5000;
/** Keys are used for so long without an answer. */
export const KEYS_KEPT_MS = 24 * 60 * MINUTE_MS;

export interface KeyServerOptions {
  readonly url: string;
  readonly runtime: Pick<Runtime, 'monotonicMs' | 'random' | 'setTimer'>;
  readonly log: (level: 'info' | 'warn' | 'error', fields: object, sentence: string) => void;
  /** Other keys than before; none: the server has not answered for a day. */
  readonly changed: (keys: readonly JwtKey[]) => void;
}

export class KeyServer {
  /** `keys` is a gauge. */
  readonly counters = { fetched: 0, failed: 0, keys: 0 };
  readonly #options: KeyServerOptions;
  /** The keys in force; empty: none was told. */
  #inForce = '';
  #succeededMs: number | undefined;
  #askedMs = -Infinity;
  #retryMs = RETRY_MS_MIN;
  /** Undefined: nothing failed since the last answer. */
  #failure: string | undefined;
  #cancel: (() => void) | undefined;
  #isFetching = false;
  readonly #stopped = new AbortController();

  constructor(options: KeyServerOptions) {
    this.#options = options;
  }

  /** Resolves when the first answer is there, or has failed to come, which takes ANSWER_MS_MAX at most. */
  async start(): Promise<void> {
    await this.#fetch();
  }

  /** Which tokens it vouches for is not known: it is being asked, or it fails and has told no key that is in force. */
  get isAway(): boolean {
    return this.#isFetching || (this.#inForce === '' && this.#failure !== undefined);
  }

  stop(): void {
    this.#cancel?.();
    this.#stopped.abort();
  }

  /** A token came whose key is not here. */
  missed(): void {
    if (this.#options.runtime.monotonicMs() - this.#askedMs < ASKED_AGAIN_MS) return;
    void this.#fetch();
  }

  async #fetch(): Promise<void> {
    if (this.#isFetching || this.#stopped.signal.aborted) return;
    this.#cancel?.();
    this.#isFetching = true;
    this.#askedMs = this.#options.runtime.monotonicMs();
    const end = new CallEnd(ANSWER_MS_MAX, this.#stopped.signal);
    let waitMs: number;
    try {
      const text = await textOf(this.#options.url, end.signal);
      this.#take(text);
      waitMs = FETCH_EVERY_MS;
      this.#retryMs = RETRY_MS_MIN;
    } catch (error) {
      if (this.#stopped.signal.aborted) return;
      // The error of fetch only says that it failed; its cause says why.
      this.#fail(caughtMessage((error instanceof Error && error.cause) || error));
      waitMs = this.#retryMs;
      this.#retryMs = Math.min(RETRY_MS_MAX, 2 * this.#retryMs);
    } finally {
      end.over();
      this.#isFetching = false;
    }
    if (this.#stopped.signal.aborted) return;
    const { runtime } = this.#options;
    // Nodes that began together do not go on asking together.
    this.#cancel = runtime.setTimer(waitMs * (0.75 + runtime.random() / 4), () => void this.#fetch());
  }

  #take(text: string): void {
    const { log, url, runtime, changed } = this.#options;
    const parsed = parseJwks(text, 'usable');
    if (!parsed.ok) throw new Error(`its answer is not usable: ${parsed.reason}`);
    this.counters.fetched++;
    this.counters.keys = parsed.keys.length;
    this.#succeededMs = runtime.monotonicMs();
    if (this.#failure !== undefined) log('info', { url }, 'the key server answers again');
    this.#failure = undefined;
    const keys = keysAsText(parsed.keys);
    if (keys === this.#inForce) return;
    this.#inForce = keys;
    if (parsed.keys.length > 0)
      log('info', { url, keys: parsed.keys.length }, 'tokens are verified with these keys from now on');
    else
      log('error', { url }, 'the key server vouches for no key that can be used: the tokens of the issuer are refused');
    changed(parsed.keys);
  }

  #fail(reason: string): void {
    const { log, url, runtime, changed } = this.#options;
    this.counters.failed++;
    const agoMs = this.#succeededMs === undefined ? Infinity : runtime.monotonicMs() - this.#succeededMs;
    if (this.#inForce !== '' && agoMs >= KEYS_KEPT_MS) {
      this.#inForce = '';
      this.counters.keys = 0;
      log(
        'error',
        { url, reason },
        'the key server has not answered for a day: tokens that it vouches for are refused',
      );
      changed([]);
    } else if (this.#failure !== reason) {
      const what =
        this.#inForce === '' ? 'tokens that it vouches for are refused' : 'its last keys stay in force for a day';
      log('warn', { url, reason }, `the key server gives no keys; until it does, ${what}`);
    }
    this.#failure = reason;
  }
}

/** Their order says nothing, and other members of the document may change each time. */
function keysAsText(keys: readonly JwtKey[]): string {
  return JSON.stringify(keys.map((key) => JSON.stringify(key)).toSorted());
}

/** A redirect is refused: the operator named the server that vouches for tokens. */
async function textOf(url: string, signal: AbortSignal): Promise<string> {
  const headers = { accept: 'application/jwk-set+json, application/json' };
  const response = await fetch(url, { headers, signal, redirect: 'error' });
  if (response.status !== 200 || response.body === null) {
    await response.body?.cancel();
    throw new Error(`it answered ${response.status}`);
  }
  const tooLong = (): Error => new Error(`its answer is longer than ${JWKS_BYTES_MAX} bytes`);
  return (await wholeOf(response.body, JWKS_BYTES_MAX, tooLong)).toString('utf8');
}
