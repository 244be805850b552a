/**
 * One run: everything follows from its seed. First a phase with faults, in which nothing acknowledged may be lost; then
 * the faults end and the cluster must come to rest: leaders everywhere, writes through every node, replicas equal.
 */
import type { PlantedBug } from '../../src/base/planted-bugs.ts';
import { SessionTraffic } from './sessions/traffic.ts';
import { createRandom } from '../support/random.ts';
import type { DiskFault } from './disk-faults.ts';
import { Exporting } from './backup/exporting.ts';
import { Restoring } from './backup/restoring.ts';
import { Balancing } from './balancing.ts';
import { Checks } from './checks.ts';
import { Clients } from './clients.ts';
import { ColdChecks } from './cold/checks.ts';
import { SimColdStore } from './cold/store.ts';
import { Faults } from './faults.ts';
import { Forking } from './forks/forking.ts';
import { Liveness } from './liveness.ts';
import { Network } from './network.ts';
import { SimNode } from './node.ts';
import { StarvedRun } from './starved-run.ts';
import { ThinRun } from './thin-run.ts';
import { type SimOptions, drawOptions } from './options.ts';
import { plant, plantedHits } from './planted/switch.ts';
import { EventQueue } from './queue.ts';
import { SimFailure, type World } from './world.ts';

export interface Result {
  readonly ticks: number;
  readonly simulatedMs: number;
  readonly options: SimOptions;
  /** The events, and how often each happened. */
  readonly counts: Readonly<Record<string, number>>;
}

export interface SimulationParts {
  /** Needs the module of load.ts. */
  readonly bug?: PlantedBug | undefined;
  readonly diskFault?: DiskFault | undefined;
  readonly blind?: boolean;
  readonly log?: ((line: string) => void) | undefined;
}

export class Simulation implements World {
  readonly options: SimOptions;
  readonly queue = new EventQueue();
  readonly network: Network;
  readonly nodes: readonly SimNode[];
  readonly checks: Checks;
  readonly cold: SimColdStore | undefined;
  readonly diskFault: DiskFault | undefined;
  readonly clients: Clients;
  readonly blind: boolean;
  readonly #bug: PlantedBug | undefined;
  readonly #faults: Faults;
  readonly #balancing: Balancing;
  readonly #thin: ThinRun | undefined;
  readonly #starved: StarvedRun | undefined;
  readonly #exporting: Exporting;
  readonly #restoring: Restoring | undefined;
  readonly #coldChecks: ColdChecks | undefined;
  readonly #forking: Forking | undefined;
  readonly #sessions: SessionTraffic | undefined;
  readonly #log: ((line: string) => void) | undefined;
  faulty = true;

  /** `log` receives a trace for investigating a failure. */
  constructor(seed: number, { bug, diskFault, blind = false, log }: SimulationParts = {}) {
    this.options = drawOptions(seed);
    this.#bug = bug;
    this.diskFault = diskFault;
    this.blind = blind;
    this.#log = log;
    this.network = new Network(this.queue, createRandom(seed * 17 + 11), this.options.network);
    this.checks = new Checks(this);
    this.cold = this.options.cold === undefined ? undefined : new SimColdStore(this, this.options.cold);
    this.#coldChecks = this.cold === undefined ? undefined : new ColdChecks(this, this.cold);
    this.nodes = this.options.nodes.map((id) => new SimNode(this, id));
    this.clients = new Clients(this);
    this.#forking = this.options.forks ? new Forking(this, this.clients) : undefined;
    this.#faults = new Faults(this);
    this.#balancing = new Balancing(this);
    this.#exporting = new Exporting(this);
    if (this.options.thin !== undefined) this.#thin = new ThinRun(this, this.clients, this.options.thin);
    if (this.options.sessions) this.#sessions = new SessionTraffic(this);
    if (this.options.starved) this.#starved = new StarvedRun(this, this.clients);
    const { restore } = this.options.backup;
    if (restore !== undefined) this.#restoring = new Restoring(this, this.#exporting, this.clients, restore);
  }

  started(node: SimNode): void {
    this.clients.started(node.id);
    this.#forking?.started(node);
  }

  trace(line: string): void {
    this.#log?.(`${this.queue.nowMs.toFixed(1)} ${line}`);
  }

  failure(what: string, cause?: unknown): SimFailure {
    if (cause instanceof SimFailure) return cause;
    const seed = `0x${this.options.seed.toString(16)}`;
    const line = `FAIL ${what} | seed=${seed} tick=${this.queue.ticks} | npm run sim -- --seed ${seed}`;
    return new SimFailure(line, { cause });
  }

  run(): Result {
    if (this.#bug !== undefined) plant(this.#bug);
    try {
      return this.#run();
    } finally {
      if (this.#bug !== undefined) plant(undefined);
    }
  }

  #run(): Result {
    for (const node of this.nodes) node.start();
    this.clients.start();
    this.#forking?.start();
    this.cold?.start();
    this.#faults.start();
    this.#balancing.start();
    this.#thin?.start();
    this.#starved?.start();
    this.#sessions?.start();
    this.#exporting.start();
    this.#restoring?.start();
    this.#runUntil(this.options.safetyMs);
    this.faulty = false;
    this.trace('faults end');
    this.#faults.heal();
    this.cold?.heal();
    const liveness = new Liveness(this, this.clients, {
      exporting: this.#exporting,
      forking: this.#forking,
      restoring: this.#restoring,
      sessions: this.#sessions,
    });
    liveness.run((untilMs) => this.#runUntil(untilMs));
    this.#coldChecks?.audit();
    return {
      ticks: this.queue.ticks,
      simulatedMs: this.queue.nowMs,
      options: this.options,
      counts: {
        ...this.#faults.counts,
        ...this.checks.counts,
        ...this.clients.watching.counts,
        ...this.#balancing.counts,
        ...this.#thin?.counts,
        ...this.#starved?.counts,
        ...this.#exporting.counts,
        ...this.#restoring?.allCounts,
        ...this.cold?.counts,
        ...this.#coldChecks?.counts,
        ...this.#forking?.counts,
        ...Object.fromEntries(
          Object.entries(this.#sessions?.counts ?? {}).map(([what, count]) => [`session ${what}`, count]),
        ),
        ...Object.fromEntries(this.clients.counts),
        ...(this.#bug === undefined ? {} : { cameByTheBug: plantedHits() }),
      },
    };
  }

  #runUntil(untilMs: number): void {
    while (this.queue.step(untilMs));
  }
}
