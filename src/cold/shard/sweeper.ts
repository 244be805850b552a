/**
 * Finds unreferenced objects in the store: uploads whose command was never applied, because the leader changed, the
 * process died, or the outcome was unknown. A MARK_ORPHAN command puts them into the GC queue.
 *
 * It never takes an object that may still get a reference. Only a leader that has applied an entry of its own term
 * sweeps, so every FLUSH of earlier leaders that can ever be applied has been; it knows its own uploads; and young
 * objects are always left alone.
 */
import { planted } from '../../base/planted.ts';
import type { Group } from '../../group/group.ts';
import { Random } from '../../raft/random.ts';
import { objectKnown } from '../state/objects.ts';
import { type ObjectId, type Orphan, encodeOrphanList } from '../../protocol/cold.ts';
import { newCommandFields } from '../../protocol/command.ts';
import { NO_ORIGIN, objectPrefix, parseObjectKey } from '../../protocol/object-key.ts';
import type { ColdPort, ColdSettings, ListAnswer, ListedObject } from './port.ts';
import type { Proposals } from './proposals.ts';
import { COMMANDS } from '../../protocol/operations.ts';

/** Objects per page; a pass over a million of them is a thousand pages, one at a time. */
const PAGE = 1000;
/** Delay after a failure, and minimum delay. */
const RETRY_MS = 30_000;

interface Lane {
  readonly group: Group;
  nextAtMs: number;
  /** Where the running pass continues. */
  after: string;
  busy: boolean;
  page: Exclude<ListAnswer, { readonly error: string }> | undefined;
}

export interface SweeperOptions {
  readonly groups: readonly Group[];
  readonly port: ColdPort;
  readonly settings: ColdSettings;
  readonly proposals: Proposals;
  readonly seed: number;
  readonly nextId: () => number;
  /** The object is a running upload of this process. */
  readonly owns: (object: ObjectId) => boolean;
}

export class Sweeper {
  readonly counters = { passes: 0, listed: 0, orphans: 0, orphanBytes: 0, errors: 0 };
  readonly #options: SweeperOptions;
  readonly #lanes: readonly Lane[];
  readonly #asked = new Map<number, Lane>();
  #dueAtMs = 0;
  #clockMs = 0;

  constructor(options: SweeperOptions) {
    this.#options = options;
    const random = new Random(options.seed);
    this.#lanes = options.groups.map((group) => ({
      group,
      // Spread over the interval, so that groups and nodes do not list all at once.
      nextAtMs: this.#interval(random),
      after: '',
      busy: false,
      page: undefined,
    }));
  }

  #interval(random: Random): number {
    const half = Math.ceil(this.#options.settings.sweepIntervalMs / 2);
    return half + random.below(half + 1);
  }

  get dueAtMs(): number {
    return this.#dueAtMs;
  }

  turn(nowMs: number, clockMs: number): void {
    this.#clockMs = clockMs;
    if (clockMs < this.#dueAtMs) return;
    this.#dueAtMs = Infinity;
    for (const lane of this.#lanes) {
      if (lane.page !== undefined) this.#judge(lane, lane.page, nowMs);
      else if (!lane.busy && clockMs >= lane.nextAtMs) this.#ask(lane);
      if (!lane.busy) this.#dueAtMs = Math.min(this.#dueAtMs, lane.nextAtMs);
    }
  }

  onListed(id: number, answer: ListAnswer): void {
    const lane = this.#asked.get(id);
    if (lane === undefined) return;
    this.#asked.delete(id);
    this.#dueAtMs = 0;
    if ('error' in answer) {
      this.counters.errors++;
      this.#end(lane, Math.min(RETRY_MS, this.#options.settings.sweepIntervalMs));
      return;
    }
    this.counters.listed += answer.objects.length;
    lane.page = answer;
  }

  #ask(lane: Lane): void {
    const { group } = lane;
    if (!knowsEverything(group) || group.state.cold.origin === NO_ORIGIN)
      return this.#end(lane, this.#options.settings.sweepIntervalMs);
    const id = this.#options.nextId();
    lane.busy = true;
    this.#asked.set(id, lane);
    this.#options.port.list({
      id,
      prefix: objectPrefix(group.id, group.state.cold.origin),
      after: lane.after,
      limit: PAGE,
    });
    return undefined;
  }

  #judge(lane: Lane, page: NonNullable<Lane['page']>, nowMs: number): void {
    const { group } = lane;
    lane.page = undefined;
    const { sweepIntervalMs } = this.#options.settings;
    if (!knowsEverything(group) || !group.accepts) return this.#end(lane, sweepIntervalMs);
    const orphans: Orphan[] = [];
    for (const listed of page.objects) {
      const object = this.#orphan(group, listed, nowMs);
      if (object !== undefined && !planted('orphans-not-found')) orphans.push({ object, key: listed.key });
    }
    if (page.next === undefined) {
      this.counters.passes++;
      this.#end(lane, sweepIntervalMs);
    } else {
      lane.after = page.next;
      lane.busy = false;
      lane.nextAtMs = this.#clockMs;
    }
    if (orphans.length === 0) return undefined;
    const fields = newCommandFields();
    fields.kind = COMMANDS.markOrphan.number;
    fields.payload = encodeOrphanList(orphans);
    // Ignores the outcome: the next pass finds them again if necessary.
    this.#options.proposals.propose(group, fields, nowMs, (outcome) => {
      if (outcome === 'applied') this.counters.orphans += orphans.length;
    });
    return undefined;
  }

  #orphan(group: Group, listed: ListedObject, nowMs: number): ObjectId | undefined {
    const { settings, owns } = this.#options;
    const parsed = parseObjectKey(listed.key);
    // Not one of our names: a foreign object, which we leave alone.
    if (parsed === undefined || parsed.origin !== group.state.cold.origin) return undefined;
    if (listed.writtenAtMs > nowMs - settings.sweepGraceMs) return undefined;
    const object = { run: parsed.run, seq: parsed.seq };
    if (owns(object) && !planted('sweep-takes-uploads')) return undefined;
    if (objectKnown(group.state, object)) return undefined;
    this.counters.orphanBytes += listed.bytes;
    return object;
  }

  #end(lane: Lane, waitMs: number): void {
    lane.busy = false;
    lane.after = '';
    lane.nextAtMs = this.#clockMs + waitMs;
  }
}

/** Leads, and has applied an entry of its own term: no entry of an earlier term can be applied any more. */
function knowsEverything(group: Group): boolean {
  return group.leads && group.state.appliedTerm === group.raft.term;
}
