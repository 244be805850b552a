/**
 * Finds unreferenced objects in the store: uploads whose command was never applied, because the leader changed, the
 * process died, or the outcome was unknown. A MARK_ORPHAN command puts them into the GC queue.
 *
 * It never takes an object that may still get a reference. Only a leader that has applied an entry of its own term
 * sweeps, so every FLUSH of earlier leaders that can ever be applied has been; it knows its own uploads; and young
 * objects are always left alone. Where the disk changed a row, the one that an object has may have another key now.
 */
import { planted } from '../../base/planted.ts';
import type { Group } from '../../group/group.ts';
import { Random } from '../../raft/random.ts';
import { objectKnown } from '../../stream/cold/objects.ts';
import { type ObjectId, type Orphan } from '../../protocol/cold.ts';
import { commandFor } from '../../protocol/command-request.ts';
import { NO_ORIGIN, objectPrefix, parseObjectKey } from '../../protocol/object-key.ts';
import type { ColdOutcome, ListedObject, ObjectPage } from '../ports.ts';
import { type PartOptions, TurnLoop } from './turn-loop.ts';
import { COMMANDS } from '../../protocol/operations.ts';

/** Objects per page; a pass over a million of them is a thousand pages, one at a time. */
const PAGE = 1000;
/** Delay after a failure, and minimum delay. */
const RETRY_MS = 30_000;

interface Work {
  readonly group: Group;
  nextAtMs: number;
  /** Where the running pass continues. */
  after: string;
  busy: boolean;
  page: ObjectPage | undefined;
}

export interface SweeperOptions extends PartOptions {
  /** The object is a running upload of this process. */
  readonly owns: (object: ObjectId) => boolean;
}

export class Sweeper extends TurnLoop<Work> {
  readonly counters = {
    cold_sweep_passes: 0,
    cold_sweep_listed: 0,
    cold_orphan_cleanup_attempts: 0,
    cold_orphan_cleanup_errors: 0,
    cold_orphan_bytes: 0,
  };
  readonly #options: SweeperOptions;

  constructor(options: SweeperOptions) {
    const random = new Random(options.seed);
    const halfMs = Math.ceil(options.settings.sweepIntervalMs / 2);
    const works = options.groups.map((group): Work => ({
      group,
      // Spread over the interval, so that groups and nodes do not list all at once.
      nextAtMs: halfMs + random.below(halfMs + 1),
      after: '',
      busy: false,
      page: undefined,
    }));
    super(works);
    this.#options = options;
  }

  protected override visit(work: Work): number {
    if (work.page !== undefined) this.#judge(work, work.page, this.nowMs);
    else if (!work.busy && this.clockMs >= work.nextAtMs) this.#ask(work);
    return work.busy ? Infinity : work.nextAtMs;
  }

  #listed(work: Work, outcome: ColdOutcome<'list'>): void {
    this.wake();
    if (!outcome.ok) {
      this.counters.cold_orphan_cleanup_errors++;
      this.#end(work, Math.min(RETRY_MS, this.#options.settings.sweepIntervalMs));
      return;
    }
    this.counters.cold_sweep_listed += outcome.value.objects.length;
    work.page = outcome.value;
  }

  #ask(work: Work): void {
    const { group } = work;
    if (!knowsEverything(group) || group.state.cold.origin === NO_ORIGIN)
      return this.#end(work, this.#options.settings.sweepIntervalMs);
    work.busy = true;
    const prefix = objectPrefix(group.id, group.state.cold.origin);
    this.#options.port.ask({ op: 'list', prefix, after: work.after, limit: PAGE }, (outcome) =>
      this.#listed(work, outcome),
    );
    return undefined;
  }

  #judge(work: Work, page: ObjectPage, nowMs: number): void {
    const { group } = work;
    work.page = undefined;
    // Also when a row that the disk changed ends this.
    this.#end(work, this.#options.settings.sweepIntervalMs);
    if (!knowsEverything(group) || !group.accepts) return undefined;
    const orphans: Orphan[] = [];
    for (const listed of page.objects) {
      const object = this.#orphan(group, listed, nowMs);
      if (object !== undefined && !planted('orphans-not-found')) orphans.push({ object, key: listed.key });
    }
    const next = page.more ? page.objects.at(-1)?.key : undefined;
    if (next === undefined) this.counters.cold_sweep_passes++;
    else {
      work.after = next;
      work.nextAtMs = this.clockMs;
    }
    if (orphans.length === 0) return undefined;
    const fields = commandFor(COMMANDS.markOrphan, { orphans });
    // Ignores the outcome: the next pass finds them again if necessary.
    this.#options.proposals.propose(group, fields, nowMs, (outcome) => {
      if (outcome === 'applied') this.counters.cold_orphan_cleanup_attempts += orphans.length;
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
    this.counters.cold_orphan_bytes += listed.bytes;
    return object;
  }

  #end(work: Work, waitMs: number): void {
    work.busy = false;
    work.after = '';
    work.nextAtMs = this.clockMs + waitMs;
  }
}

/**
 * Leads, has applied an entry of its own term, so no entry of an earlier term can be applied any more, and has no row
 * that is known to be damaged.
 */
function knowsEverything({ leads, raft, state }: Group): boolean {
  return leads && state.appliedTerm === raft.term && !raft.wantsState;
}
