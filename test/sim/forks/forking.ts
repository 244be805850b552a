/** Forks in a run: their services in the nodes, clients that make them, and what must hold. */
import type { Clients } from '../clients.ts';
import type { Until } from '../liveness.ts';
import type { SimNode } from '../node.ts';
import type { World } from '../world.ts';
import { ForkClients } from './clients.ts';
import { Contents } from './contents.ts';
import { ForkEnd } from './end.ts';
import { ForkServices } from './services.ts';

export class Forking {
  readonly #services: ForkServices;
  readonly #contents: Contents;
  readonly #clients: ForkClients;
  readonly #end: ForkEnd;

  constructor(world: World, all: Clients) {
    this.#services = new ForkServices(world);
    this.#contents = new Contents(world);
    this.#clients = new ForkClients(world, all, this.#services);
    this.#end = new ForkEnd(world, all, this.#clients);
  }

  get counts(): Readonly<Record<string, number>> {
    return this.#contents.counts;
  }

  start(): void {
    this.#clients.start();
  }

  started({ process }: SimNode): void {
    if (process !== undefined) this.#services.started(process);
  }

  finish(until: Until): void {
    this.#end.run(until);
  }
}
