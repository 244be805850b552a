/** The cold store from within a shard thread: tasks go to the main thread, which has the service and its pool. */
import type { MessagePort } from 'node:worker_threads';
import type { ColdOutcome, ColdPort, ColdTask } from '../src/cold/ports.ts';
import type { ColdAnswer } from '../src/server/shards.ts';

interface Waiting {
  onOutcome(outcome: ColdOutcome): void;
}

export class MainThreadStore implements ColdPort {
  readonly #port: MessagePort;
  readonly #waiting = new Map<number, Waiting>();
  #lastId = 0;

  constructor(port: MessagePort) {
    this.#port = port;
  }

  ask<Task extends ColdTask>(task: Task, onOutcome: (outcome: ColdOutcome<Task['op']>) => void): void {
    const id = ++this.#lastId;
    this.#waiting.set(id, { onOutcome });
    this.#port.postMessage({ id, task }, task.op === 'put' ? [task.body.buffer] : []);
  }

  answered({ id, outcome }: ColdAnswer): void {
    this.#waiting.get(id)?.onOutcome(outcome);
    this.#waiting.delete(id);
  }
}
