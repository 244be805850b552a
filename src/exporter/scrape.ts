/** Asks all nodes at once, each for a bounded time. Scrapers that come meanwhile share the answers. */
import { Cluster } from '../nodes/cluster.ts';
import { Failure, printable, reasonOf } from '../nodes/failure.ts';
import type { Json } from '../nodes/report.ts';

export interface NodeAnswer {
  readonly nodeId: number;
  /** Undefined: it did not answer. */
  readonly json: Json | undefined;
  readonly seconds: number;
}

/** Metrics of 4096 groups are about three mebibytes. */
const ANSWER_BYTES_MAX = 8 * 1024 * 1024;

export class Scraper {
  readonly #cluster: Cluster;
  readonly #tell: (line: string) => void;
  /** The last fault told of each silent node: told once, not every 15 s. */
  readonly #faults = new Map<number, string>();
  #running: Promise<readonly NodeAnswer[]> | undefined;

  constructor(cluster: Cluster, tell: (line: string) => void) {
    this.#cluster = cluster;
    this.#tell = tell;
  }

  /** Never rejects for what a node does. */
  scrape(): Promise<readonly NodeAnswer[]> {
    this.#running ??= this.#askAll().finally(() => {
      this.#running = undefined;
    });
    return this.#running;
  }

  async #askAll(): Promise<readonly NodeAnswer[]> {
    const { file, options } = this.#cluster;
    // A signal of its own: derived ones of a signal that lives for months would pile up behind it.
    const ending = new AbortController();
    const end = (): void => ending.abort();
    options.signal.addEventListener('abort', end, { once: true });
    try {
      const cluster = new Cluster(file, { ...options, signal: ending.signal, textBytesMax: ANSWER_BYTES_MAX });
      return await Promise.all(file.nodes.map(({ id }) => this.#ask(cluster, id)));
    } finally {
      options.signal.removeEventListener('abort', end);
    }
  }

  async #ask(cluster: Cluster, nodeId: number): Promise<NodeAnswer> {
    const startMs = performance.now();
    let json: Json | undefined;
    let fault: string | undefined;
    try {
      json = await cluster.metricsJson(cluster.node(nodeId));
    } catch (error) {
      fault = error instanceof Failure ? error.message : reasonOf(error);
    }
    this.#note(nodeId, fault);
    return { nodeId, json, seconds: (performance.now() - startMs) / 1000 };
  }

  #note(nodeId: number, fault: string | undefined): void {
    if (fault === this.#faults.get(nodeId)) return;
    if (fault === undefined) this.#faults.delete(nodeId);
    else this.#faults.set(nodeId, fault);
    // It may quote what answers there, which must neither drive a terminal nor add lines to a log.
    this.#tell(`node ${nodeId}: ${printable(fault ?? 'answers again')}`);
  }
}
