/** Asks all nodes again and again, and keeps what follows. The views show this and nothing of their own. */
import { caughtMessage } from '../../base/caught.ts';
import { isObject } from '../../nodes/report.ts';
import { type Finding, findings } from '../../nodes/findings.ts';
import type { OperatorRole } from '../../base/scopes.ts';
import { roleIn } from '../model/actions.ts';
import { History } from '../model/history.ts';
import { LagWatch } from '../model/lag.ts';
import { samplesIn, valuesBefore } from '../model/past.ts';
import { valuesOf } from '../model/plots.ts';
import {
  type KnownNode,
  type Round,
  type Sample,
  answered,
  NO_ANSWER_YET,
  failed,
  nodesKnownTo,
  snapshotOf,
} from '../model/samples.ts';
import { type Api, NoAnswer, jsonOf, sentenceOf, type PageKind } from './api.ts';

/** Fine enough for a plot; a question costs a node a millisecond. */
const ROUND_MS = 2000;
const TIMEOUT_MS = 5000;
/** Nodes that answer are shown then; what others say comes with a later round. */
const PATIENCE_MS = 1000;
/** The page's own node has this id until it has told its own. */
const UNKNOWN_ID = 0;

export class Watch {
  readonly api: Api;
  readonly kind: PageKind;
  readonly history = new History();
  readonly lag = new LagWatch();
  nodes: readonly KnownNode[] = [];
  round: Round = [];
  /** Why the page shows nothing: a token is asked for, or the tool is gone. */
  locked: string | undefined;
  problem: string | undefined;
  /** The role of the token; undefined until a node has told it. */
  role: OperatorRole | undefined;
  #label = '';
  #hasPast = false;
  #looks = 0;
  /** The question under way for each node that is asked. */
  readonly #asking = new Map<number, Promise<void>>();
  readonly #latest = new Map<number, Sample>();
  readonly #listeners = new Set<() => void>();

  constructor(api: Api, kind: PageKind) {
    this.api = api;
    this.kind = kind;
    if (kind === 'node') this.nodes = [{ id: UNKNOWN_ID, host: location.host, isAsked: true }];
  }

  /** In the title. */
  get label(): string {
    return this.kind === 'cluster' ? this.#label : location.host;
  }

  /** A node that answered the last time, for what any node can do. */
  get anyNode(): number {
    const answering = this.round.find(({ report }) => report !== undefined);
    return answering?.nodeId ?? this.nodes.find(({ isAsked }) => isAsked)?.id ?? UNKNOWN_ID;
  }

  /** Worst first. */
  get findings(): Finding[] {
    const order = ['bad', 'warn', 'info'];
    const named = this.nodes.map(({ id, host }) => ({ id, host }));
    const told = findings(named, snapshotOf(this.round)).filter(({ isSilence }) => isSilence !== true);
    const all = [...this.lag.findings(), ...told];
    const fitting = all.filter(({ from }) => this.kind === 'cluster' || from === 'node');
    return fitting.toSorted((a, b) => order.indexOf(a.severity) - order.indexOf(b.severity));
  }

  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Never ends. */
  async run(): Promise<void> {
    for (;;) {
      const begunMs = performance.now();
      if (this.locked === undefined) await this.#look();
      await new Promise((resolve) => setTimeout(resolve, Math.max(0, begunMs + ROUND_MS - performance.now())));
    }
  }

  unlock(token: string): void {
    this.api.unlock(token);
    this.locked = undefined;
    this.role = undefined;
    void this.look();
  }

  /** Asks again, also where a question is under way: something has changed. */
  async look(): Promise<void> {
    this.#asking.clear();
    await this.#look();
  }

  async #look(): Promise<void> {
    const look = ++this.#looks;
    try {
      if (this.kind === 'cluster' && this.nodes.length === 0) await this.#readNodes();
      const asked = this.nodes.filter(({ isAsked }) => isAsked);
      const asking = asked.map(({ id }) => this.#asking.get(id) ?? this.#begin(id));
      await Promise.race([Promise.all(asking), new Promise((resolve) => setTimeout(resolve, PATIENCE_MS))]);
      if (look !== this.#looks) return;
      const nowMs = performance.now();
      const round = asked.map(({ id }) => this.#latest.get(id) ?? failed(id, nowMs, NO_ANSWER_YET));
      this.#take(round);
      this.problem = undefined;
    } catch (error) {
      // A later one, maybe with another token, is under way.
      if (look !== this.#looks) return;
      if (error instanceof NoAnswer && error.isLocked) this.locked = error.message;
      else this.problem = caughtMessage(error);
    }
    this.#tell();
  }

  #tell(): void {
    for (const listener of this.#listeners) listener();
  }

  #take(round: Round): void {
    this.history.add(Date.now(), valuesOf(round, this.round));
    this.lag.add(round, performance.now());
    this.round = round;
    void this.#readRole();
    if (!this.#hasPast && round.some(({ report }) => report !== undefined)) void this.#readPast();
    const [own] = round;
    if (this.kind !== 'node' || own?.report === undefined || own.metrics === undefined) return;
    this.nodes = nodesKnownTo(own.report, own.metrics).map((node) =>
      node.isAsked ? { ...node, host: location.host } : node,
    );
  }

  /** Each round: a reload of the node may give the token another role. */
  async #readRole(): Promise<void> {
    try {
      const answer = await this.api.node(this.anyNode, '/__svc/whoami', { timeoutMs: TIMEOUT_MS });
      // A node of a version without roles has no such route, and tokens with all rights only.
      const role = answer.status === 404 ? 'destroy' : roleIn(jsonOf(answer));
      if (role === undefined || role === this.role) return;
      this.role = role;
      this.#tell();
    } catch {
      // The round says so, and the next one asks again.
    }
  }

  /** Once. A node that does not answer now has no past for this page. */
  async #readPast(): Promise<void> {
    this.#hasPast = true;
    const kept = this.round.map(async ({ nodeId }) => {
      try {
        const answer = await this.api.node(nodeId, '/__svc/metrics/history');
        return answer.status === 200 ? samplesIn(nodeId, jsonOf(answer)) : [];
      } catch {
        return [];
      }
    });
    this.history.precede(valuesBefore((await Promise.all(kept)).flat()));
    this.#tell();
  }

  async #readNodes(): Promise<void> {
    const answer = await this.api.own('/console/nodes');
    const json = jsonOf(answer);
    if (!isObject(json) || !Array.isArray(json['nodes'])) throw new NoAnswer(sentenceOf(answer));
    this.#label = String(json['label']);
    this.nodes = json['nodes'].filter(isObject).map(({ id, host }) => {
      return { id: Number(id), host: String(host), isAsked: true };
    });
  }

  #begin(id: number): Promise<void> {
    const question = this.#ask(id).then(
      (sample) => {
        // Not of a question that a later one has replaced.
        if (this.#asking.get(id) === question) this.#latest.set(id, sample);
      },
      (error: unknown) => {
        if (this.#asking.get(id) === question) throw error;
      },
    );
    this.#asking.set(id, question);
    const end = (): void => void (this.#asking.get(id) === question && this.#asking.delete(id));
    question.then(end, end);
    return question;
  }

  async #ask(id: number): Promise<Sample> {
    try {
      const answer = await this.api.node(id, '/__svc/metrics', { timeoutMs: TIMEOUT_MS });
      if (answer.status !== 200) return failed(id, performance.now(), sentenceOf(answer));
      const sample = answered(id, performance.now(), jsonOf(answer));
      const { report } = sample;
      if (report === undefined || this.kind === 'node') return { ...sample, nodeId: report?.nodeId ?? id };
      return report.nodeId === id
        ? sample
        : failed(id, performance.now(), `it answers as node ${report.nodeId}; mend the cluster file`);
    } catch (error) {
      if (error instanceof NoAnswer && error.isLocked) throw error;
      return failed(id, performance.now(), caughtMessage(error));
    }
  }
}
