/**
 * The nodes of a cluster: one connection, to any of them, for all streams. When it ends another node is tried, after a
 * delay that grows while none of them answers. Appends go over further connections to the nodes that lead their streams.
 */
import type { NodeChannel, WebSocketConstructor } from './channel.ts';
import { ConnectionLost, StreamError, clientError } from './error.ts';
import { HttpChannel } from './http-channel.ts';
import { leaderOf } from './leaders.ts';
import { SILENCE_MS, SessionChannel } from './session.ts';
import { type EndSignal, EndSource, backoffMs, raced, sleep, spreadMs, throwIfAborted } from './waiting.ts';
import { KIND, type WireAnswer, type WireRequest, bytesOfBody } from './wire.ts';

/** The answer to a removal that an earlier try of the same call did. */
const DONE_BEFORE: WireAnswer = { next: undefined, fields: new Map(), body: new Uint8Array(0) };
/** Codes of a stream that was removed; the second one while forks hold its name. */
const GONE: ReadonlySet<string> = new Set(['STREAM_NOT_FOUND', 'STREAM_DELETED']);
/** The longest silence that a slow connection is granted: one record may take so long to arrive. */
const SILENCE_MS_MAX = 16 * SILENCE_MS;
/** Between two tries to reach a leader. */
const LEADER_AGAIN_MS = 5000;

export interface PoolOptions {
  readonly urls: readonly string[];
  readonly token: string | undefined;
  /** Undefined: everything goes over HTTP. */
  readonly socket: WebSocketConstructor | undefined;
}

interface Leader {
  /** Undefined: it is being opened, or could not be. */
  channel: NodeChannel | undefined;
  /** Infinity while it is being opened: a second one in its place would leave it open. */
  triedMs: number;
}

export class NodePool {
  readonly #options: PoolOptions;
  readonly #closed = new EndSource();
  #current: NodeChannel | undefined;
  #opening: Promise<NodeChannel> | undefined;
  /** Callers that wait for a connection: without one there is no reason to open it. */
  #waiting = 0;
  /** Connections in a row that brought no answer. */
  #failures = 0;
  /** Longer each time that a session ended in silence: what was on its way may have needed more. */
  #silenceMs = SILENCE_MS;
  /** By URL. */
  readonly #leaders = new Map<string, Leader>();
  /** In the order in which they are tried, so that clients spread over the nodes, and those of one that is lost over the others. */
  readonly #urls: readonly string[];
  #place = 0;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#urls = shuffled(options.urls);
  }

  /** Aborted by `close`, with the error for everything that waits. */
  get closed(): EndSource {
    return this.#closed;
  }

  /** The connection for everything that any node does as well as another. */
  async any(signals: readonly EndSignal[]): Promise<NodeChannel> {
    throwIfAborted([...signals, this.closed]);
    if (this.#current?.isOpen === true) return this.#current;
    this.#waiting++;
    try {
      this.#opening ??= this.#open().finally(() => (this.#opening = undefined));
      return await raced(this.#opening, [...signals, this.closed]);
    } finally {
      this.#waiting--;
    }
  }

  /** The connection for appends to the stream of this place: to its leader, once that one is known and has answered. */
  async leading(place: bigint, signals: readonly EndSignal[]): Promise<NodeChannel> {
    return this.#nearest(place, await this.any(signals));
  }

  /** Whether leading() would still choose it. */
  isBest(place: bigint, channel: NodeChannel): boolean {
    const home = this.#current;
    return home?.isOpen !== true || this.#nearest(place, home) === channel;
  }

  /** Requests that a session does not take go to the same node over HTTP. */
  wayOf(request: WireRequest, channel: NodeChannel): NodeChannel {
    const fits = request.route === undefined && bytesOfBody(request) <= channel.bounds.bytes;
    return fits || channel instanceof HttpChannel ? channel : new HttpChannel(channel.url, this.#options.token);
  }

  /** Asks until there is an answer, or a refusal that a repeat does not cure. */
  async ask(request: WireRequest, signals: readonly EndSignal[] = []): Promise<WireAnswer> {
    const all = [...signals, this.closed];
    let isUnknown = false;
    for (let tries = 0; ; tries++) {
      try {
        const channel = this.wayOf(request, await this.any(signals));
        return await raced(channel.ask(request, all), all);
      } catch (error) {
        if (isUnknown && request.kind === KIND.delete && GONE.has(codeOf(error))) return DONE_BEFORE;
        isUnknown ||= error instanceof ConnectionLost || codeOf(error) === 'OUTCOME_UNKNOWN';
        await this.pause(error, tries, signals);
      }
    }
  }

  /** Waits until it may be asked again; throws what a repeat does not cure. `tries`: so many before. */
  async pause(error: unknown, tries: number, signals: readonly EndSignal[]): Promise<void> {
    const all = [...signals, this.closed];
    throwIfAborted(all);
    if (error instanceof StreamError && error.retryAfterMs !== undefined) {
      // The node leaves, and the next one need not wait.
      if (error.code !== 'STOPPING') await sleep(spreadMs(error.retryAfterMs), all);
    } else if (!(error instanceof ConnectionLost)) throw error;
    if (tries > 0) await sleep(backoffMs(tries), all);
  }

  close(): void {
    if (this.closed.aborted) return;
    this.#closed.abort(
      clientError('CLIENT_CLOSED', 'the client was closed; what was not acknowledged may be done or not'),
    );
    this.#current?.close();
    for (const { channel } of this.#leaders.values()) channel?.close();
  }

  #nearest(place: bigint, home: NodeChannel): NodeChannel {
    const url = leaderOf(home.leaders, place);
    // The token goes to the nodes that the program named, and to no other.
    if (url === undefined || url === home.url || !this.#options.urls.includes(url)) return home;
    const { channel, triedMs = -Infinity } = this.#leaders.get(url) ?? {};
    if (channel?.isOpen === true) return channel;
    if (performance.now() - triedMs > LEADER_AGAIN_MS) void this.#approach(url);
    return home;
  }

  /** Its appends go to the other node meanwhile. */
  async #approach(url: string): Promise<void> {
    const { token, socket } = this.#options;
    if (socket === undefined) return;
    const leader: Leader = { channel: undefined, triedMs: Number.POSITIVE_INFINITY };
    this.#leaders.set(url, leader);
    const opened = SessionChannel.open({ url, token, socket, silenceMs: this.#silenceMs }, [this.closed]);
    leader.channel = await opened.catch(() => undefined);
    leader.triedMs = performance.now();
  }

  async #open(): Promise<NodeChannel> {
    const urls = this.#urls;
    const before = this.#current;
    if (before?.hasAnswered === true) this.#failures = 0;
    if (before?.isSilent === true) this.#silenceMs = Math.min(2 * this.#silenceMs, SILENCE_MS_MAX);
    else if (before?.hasAnswered === true) this.#silenceMs = SILENCE_MS;
    let refusal: StreamError | undefined;
    for (let tries = 1; ; tries++) {
      if (this.#failures > 0) await sleep(backoffMs(this.#failures - 1), [this.closed]);
      if (this.#waiting === 0) throw new ConnectionLost('nothing waits for a connection');
      this.#failures++;
      try {
        const channel = await this.#connect(urls[this.#place++ % urls.length] ?? '');
        this.closed.throwIfAborted();
        this.#current = channel;
        return channel;
      } catch (error) {
        this.closed.throwIfAborted();
        if (error instanceof StreamError && error.retryAfterMs === undefined) refusal = error;
        // One node may be wrong about a token while another one answers.
        if (tries % urls.length === 0 && refusal !== undefined) throw refusal;
      }
    }
  }

  async #connect(url: string): Promise<NodeChannel> {
    const { token, socket } = this.#options;
    try {
      const silenceMs = this.#silenceMs;
      if (socket !== undefined) return await SessionChannel.open({ url, token, socket, silenceMs }, [this.closed]);
    } catch {
      // A WebSocket does not say why. HTTP does, and serves where a proxy keeps the others away.
      this.closed.throwIfAborted();
    }
    const channel = new HttpChannel(url, token);
    await channel.probe([this.closed]);
    return channel;
  }
}

function shuffled(urls: readonly string[]): readonly string[] {
  return urls
    .map((url) => ({ url, place: Math.random() }))
    .toSorted((a, b) => a.place - b.place)
    .map(({ url }) => url);
}

function codeOf(error: unknown): string {
  return error instanceof StreamError ? error.code : '';
}
