/** The cold store from within a shard thread: questions to the main thread, which has the service and its pool. */
import type { MessagePort } from 'node:worker_threads';
import type { ColdAnswer, ColdQuestion } from '../src/cold/service/bridge.ts';
import type { ColdPort } from '../src/cold/shard/port.ts';
import type { ColdTier } from '../src/cold/shard/tier.ts';

export function openColdPort(port: MessagePort): ColdPort {
  const send = (question: ColdQuestion, transfer: ArrayBuffer[] = []): void => port.postMessage(question, transfer);
  return {
    upload: (request) => {
      // Memory that holds more than the body would go away with it.
      const whole = request.body.byteLength === request.body.buffer.byteLength;
      const body = whole ? request.body : request.body.slice();
      send({ ask: 'upload', request: { ...request, body } }, [body.buffer]);
    },
    remove: (request) => send({ ask: 'remove', request }),
    list: (request) => send({ ask: 'list', request }),
    merge: (request) => send({ ask: 'merge', request }),
  };
}

/** Questions of peers whether this node reaches the store: the main thread finds out. */
export class StoreProbes {
  readonly #port: MessagePort;
  readonly #waiting = new Map<number, (reaches: boolean) => void>();
  #lastId = 0;

  constructor(port: MessagePort) {
    this.#port = port;
  }

  ask(): Promise<boolean> {
    const id = ++this.#lastId;
    const question: ColdQuestion = { ask: 'probe', request: { id } };
    return new Promise((resolve) => {
      this.#waiting.set(id, resolve);
      this.#port.postMessage(question);
    });
  }

  answered(id: number, reaches: boolean): void {
    this.#waiting.get(id)?.(reaches);
    this.#waiting.delete(id);
  }
}

export function deliver(cold: ColdTier, probes: StoreProbes, message: ColdAnswer): void {
  if (message.told === 'uploaded') cold.flusher.onUploaded(message.id, message.answer);
  else if (message.told === 'removed') cold.collector.onRemoved(message.id, message.answer);
  else if (message.told === 'listed') cold.sweeper.onListed(message.id, message.answer);
  else if (message.told === 'merged') cold.compactor.onMerged(message.id, message.answer);
  else probes.answered(message.id, message.answer);
}
