// Threads beside that of a shard, for nodes in the process of a test: a thread that has served in order serves the next
// node of the same shard thread. To start the one that writes checkpoints costs 0.065 s of processor.
import { EventEmitter } from 'node:events';
import { type TransferListItem, Worker } from 'node:worker_threads';
import type { SideThread } from '../../src/store/log-sync.ts';

export type SideThreadName = 'checkpoint' | 'sync';

const ENTRY = new URL('./side.worker.js', import.meta.url);

const idle: Record<SideThreadName, Server[]> = { checkpoint: [], sync: [] };

/** A thread that serves one node after the other. */
class Server {
  readonly #worker = new Worker(ENTRY, { execArgv: [] });
  /** As the node that it serves sees it. */
  #thread = new EventEmitter();

  constructor(name: SideThreadName) {
    // Without a listener an error ends the shard, as it does in a server.
    this.#worker.on('error', (error) => this.#thread.emit('error', error));
    this.#worker.on('exit', (code) => this.#thread.emit('exit', code));
    // It has served.
    this.#worker.on('message', () => {
      idle[name].push(this);
      this.#thread.emit('exit', 0);
    });
  }

  serve(asked: { name: SideThreadName; data: object }, transferList: readonly TransferListItem[]): SideThread {
    this.#thread = new EventEmitter();
    this.#worker.postMessage(asked, transferList);
    return this.#thread;
  }
}

export function startSideThread(
  name: SideThreadName,
  data: object,
  transferList: readonly TransferListItem[],
): SideThread {
  return (idle[name].pop() ?? new Server(name)).serve({ name, data }, transferList);
}
