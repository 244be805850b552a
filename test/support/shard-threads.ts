// Shard threads for nodes in the process of a test. A thread costs 0.25 s of processor to start and is slow at first,
// so one that has stopped in order serves the next node.
import { EventEmitter } from 'node:events';
import {
  MessageChannel,
  type MessagePort,
  type TransferListItem,
  Worker,
  receiveMessageOnPort,
} from 'node:worker_threads';
import type { BeforeBegin, ShardData, ShardMessage, ShardThread, ToShard } from '../../src/server/shards.ts';

const ENTRY = new URL('./shard.worker.js', import.meta.url);
/** Each holds some 30 MiB; a cluster of three with two cores has six. */
const IDLE_MAX = 6;

const idle: Worker[] = [];

export function startShardThread(data: ShardData, transferList: readonly TransferListItem[]): ShardThread {
  const worker = idle.pop() ?? new Worker(ENTRY);
  // An idle thread does not keep the process.
  worker.ref();
  return new Service(worker, data, transferList);
}

/** A thread while it serves one node. */
class Service extends EventEmitter implements ShardThread {
  readonly #worker: Worker;
  readonly #port: MessagePort;
  #hasStopped = false;
  #ended: Promise<unknown> | undefined;

  constructor(worker: Worker, data: ShardData, transferList: readonly TransferListItem[]) {
    super();
    this.#worker = worker;
    const { port1, port2 } = new MessageChannel();
    this.#port = port1;
    port1.on('message', (message: ShardMessage) => this.#told(message));
    worker.on('error', (error) => this.emit('error', error));
    worker.on('exit', (code) => {
      // The last words of a thread come before its end, as those of a worker to its parent do.
      for (let last = receiveMessageOnPort(port1); last !== undefined; last = receiveMessageOnPort(port1)) {
        const { message }: { readonly message: ShardMessage } = last;
        this.#told(message);
      }
      this.emit('exit', code);
    });
    worker.postMessage({ data, port: port2 }, [...transferList, port2]);
  }

  #told(message: ShardMessage): void {
    if (message === 'stopped') this.#hasStopped = true;
    this.emit('message', message);
  }

  postMessage(message: BeforeBegin | ToShard): void {
    this.#port.postMessage(message);
  }

  terminate(): Promise<unknown> {
    return (this.#ended ??= this.#end());
  }

  async #end(): Promise<unknown> {
    if (!this.#hasStopped || idle.length >= IDLE_MAX) return await this.#worker.terminate();
    this.#worker.removeAllListeners();
    this.#port.close();
    this.#worker.unref();
    idle.push(this.#worker);
    return undefined;
  }
}
