// The network between the nodes of a test cluster, of TCP proxies: one for each ordered pair of nodes and shard, so no
// privileges are needed. Traffic from node A to node B (data on A's own connections, answers on B's) can be cut, one
// way or both; a cut gives no signal, like a pulled cable. Bytes in flight wait, as with TCP retransmission, and arrive
// after the cut unless the connection was closed meanwhile.
import assert from 'node:assert/strict';
import { type Server, type Socket, connect, createServer } from 'node:net';
import { Bottleneck } from './bottleneck.ts';

/** The two ends of one connection that a proxy joins. */
interface Pair {
  readonly connector: Socket;
  readonly acceptor: Socket;
}

/** A connection that a cut way does not let through yet. */
interface Attempt {
  readonly from: number;
  readonly to: number;
  readonly connector: Socket;
  readonly port: number;
}

/** One direction of one connection. */
class Pipe {
  readonly #from: Socket;
  readonly #to: Socket;
  readonly #way: Way;
  /** Ended by its sender; told to the receiver when the way is open. */
  #ended = false;
  #delayed: Promise<void> = Promise.resolve();
  #delayedChunks = 0;
  /** A chunk is passing the bottleneck; the next is read afterwards. */
  #passing = false;

  constructor(from: Socket, to: Socket, way: Way) {
    this.#from = from;
    this.#to = to;
    this.#way = way;
    way.pipes.add(this);
    from.on('data', (chunk: Buffer) => this.#forward(chunk));
    from.on('close', () => {
      this.#ended = true;
      this.adjust();
    });
    to.on('drain', () => this.adjust());
    this.adjust();
  }

  adjust(): void {
    if (this.#way.cut) {
      this.#from.pause();
      return;
    }
    if (this.#ended) {
      this.#way.pipes.delete(this);
      void this.#delayed.then(() => this.#to.end());
    } else if (!this.#to.writableNeedDrain && !this.#passing) this.#from.resume();
  }

  #forward(chunk: Buffer): void {
    const { delayMs, bottleneck } = this.#way;
    if (bottleneck.bytesPerSecond !== Infinity) {
      this.#from.pause();
      this.#passing = true;
      this.#delayed = this.#delayed.then(async () => {
        await bottleneck.pass(chunk, (packet) => this.#write(packet));
        this.#passing = false;
        this.adjust();
      });
      return;
    }
    if (delayMs === 0 && this.#delayedChunks === 0) return this.#write(chunk);
    const due = performance.now() + delayMs;
    this.#delayedChunks++;
    this.#delayed = this.#delayed.then(async () => {
      // Chunks that came together leave together: a timer for each would make the way narrow, not slow.
      const waitMs = due - performance.now();
      if (waitMs > 0) {
        await new Promise((resolve) => {
          setTimeout(resolve, waitMs);
        });
      }
      this.#delayedChunks--;
      this.#write(chunk);
    });
    return undefined;
  }

  #write(chunk: Buffer): void {
    if (this.#to.destroyed) return;
    if (!this.#to.write(chunk)) this.#from.pause();
  }
}

/** Messages of one node to another. */
interface Way {
  cut: boolean;
  delayMs: number;
  readonly bottleneck: Bottleneck;
  readonly pipes: Set<Pipe>;
}

const newWay = (): Way => ({ cut: false, delayMs: 0, bottleneck: new Bottleneck(), pipes: new Set() });
const key = (from: number, to: number): string => `${from}>${to}`;

export class Network {
  readonly #ways = new Map<string, Way>();
  readonly #ports = new Map<string, number>();
  readonly #servers: Server[] = [];
  readonly #connections = new Map<string, Set<Pair>>();
  #waiting: Attempt[] = [];

  /**
   * Proxies for the links of `from` to `to`; shard i listens on `port` plus i. `target` is asked for each connection.
   */
  async add(from: number, to: number, port: number, shards: number, target: () => number): Promise<void> {
    this.#ports.set(key(from, to), port);
    this.#connections.set(key(from, to), new Set());
    for (let shard = 0; shard < shards; shard++) {
      const server = createServer({ noDelay: true, pauseOnConnect: true }, (connector) => {
        connector.on('error', () => undefined);
        this.#accept({ from, to, connector, port: target() + shard });
      });
      await new Promise<void>((resolve, reject) => {
        server.once('error', reject);
        server.listen({ port: port + shard, host: '127.0.0.1', exclusive: true }, resolve);
      });
      this.#servers.push(server);
    }
  }

  /** Where `from` finds `to`. */
  port(from: number, to: number): number {
    const port = this.#ports.get(key(from, to));
    assert(port !== undefined, `a way from node ${from} to node ${to}`);
    return port;
  }

  cutOneWay(from: number, to: number): void {
    this.#set(from, to, (way) => (way.cut = true));
  }

  cut(a: number, b: number): void {
    this.cutOneWay(a, b);
    this.cutOneWay(b, a);
  }

  /** Nothing from and to this node; clients still reach it. */
  isolate(id: number, ids: readonly number[]): void {
    for (const other of ids) if (other !== id) this.cut(id, other);
  }

  delay(from: number, to: number, delayMs: number): void {
    this.#set(from, to, (way) => (way.delayMs = delayMs));
  }

  /** All connections together get no more through; what is too much waits, as in the buffers of a router. */
  limit(from: number, to: number, bytesPerSecond: number): void {
    this.#set(from, to, ({ bottleneck }) => {
      bottleneck.bytesPerSecond = bytesPerSecond;
      bottleneck.pump();
    });
  }

  /** Breaks the connections between two nodes with a reset; new ones may come at once. */
  reset(a: number, b: number): void {
    for (const name of [key(a, b), key(b, a)]) {
      for (const { connector, acceptor } of this.#connections.get(name) ?? []) {
        connector.resetAndDestroy();
        acceptor.resetAndDestroy();
      }
    }
  }

  heal(): void {
    for (const way of this.#ways.values()) {
      way.cut = false;
      way.delayMs = 0;
      way.bottleneck.bytesPerSecond = Infinity;
      way.bottleneck.pump();
      for (const pipe of way.pipes) pipe.adjust();
    }
    for (const attempt of this.#waiting.splice(0)) this.#accept(attempt);
  }

  async close(): Promise<void> {
    for (const { connector } of this.#waiting) connector.destroy();
    for (const { bottleneck } of this.#ways.values()) bottleneck.close();
    for (const pairs of this.#connections.values()) {
      for (const { connector, acceptor } of pairs) {
        connector.destroy();
        acceptor.destroy();
      }
    }
    await Promise.all(this.#servers.map((server) => new Promise((resolve) => server.close(resolve))));
  }

  #way(from: number, to: number): Way {
    let way = this.#ways.get(key(from, to));
    if (way === undefined) this.#ways.set(key(from, to), (way = newWay()));
    return way;
  }

  #set(from: number, to: number, change: (way: Way) => void): void {
    assert(this.#ports.has(key(from, to)), `a way from node ${from} to node ${to}`);
    const way = this.#way(from, to);
    change(way);
    for (const pipe of way.pipes) pipe.adjust();
  }

  /** The connection to the target is made only over an open way: packets that ask for one are lost like all others. */
  #accept(attempt: Attempt): void {
    const { from, to, connector, port } = attempt;
    if (connector.destroyed) return;
    const [there, back] = [this.#way(from, to), this.#way(to, from)];
    if (there.cut || back.cut) {
      this.#waiting.push(attempt);
      return;
    }
    const acceptor = connect({ port, host: '127.0.0.1', noDelay: true });
    acceptor.on('error', () => connector.destroy());
    const pairs = this.#connections.get(key(from, to)) as Set<Pair>;
    const pair = { connector, acceptor };
    pairs.add(pair);
    const forget = (): void => {
      if (connector.destroyed && acceptor.destroyed) pairs.delete(pair);
    };
    connector.on('close', forget);
    acceptor.on('close', forget);
    new Pipe(connector, acceptor, there);
    new Pipe(acceptor, connector, back);
  }
}
