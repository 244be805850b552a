/**
 * Maintains the links of subscriptions on the node that drives them: streams that appear and match a pattern are linked
 * from their beginning, deleted streams lose their link, and recreated ones are processed from their beginning.
 */
import { SUBSCRIPTION_LINKS_MAX } from '../../base/limits.ts';
import type { Runtime } from '../../base/runtime.ts';
import type { ShardGateway } from '../../ports.ts';
import type { StreamTail } from '../state/decide.ts';
import type { Machine } from '../state/machine.ts';
import type { SubscriptionCommand } from '../state/record.ts';
import type { LinkPosition, Subscription } from '../state/subscription.ts';
import type { Logger } from '../../logging/logger.ts';
import type { Directory } from './stream-directory.ts';
import { listMatching } from './listing.ts';
import { locate, reaches } from './locate.ts';
import type { Tails } from './tails.ts';

/** Delay before a sweep repeats what could not be recorded or listed. */
const AGAIN_MS = 1000;
/** Each lists streams and asks for tails, and the shards have clients to serve. */
const RECONCILED_AT_ONCE = 4;
/**
 * A linked stream that is missing, and whose end this node has not seen: deleted while no node drove the subscription,
 * or still to come from a backup, group by group. The link does no harm meanwhile.
 */
const MISSING_MS = 24 * 3_600_000;

/** News about the stream of a name from an event or a query: it exists, or it has ended. */
interface Sighting {
  /** The stream's incarnation; 0: there is no stream. */
  readonly incarnation: number;
  /** Incarnations up to this one have ended. */
  readonly ended: number;
}

export interface LinkerOptions {
  readonly gateway: ShardGateway;
  readonly machine: Machine;
  readonly directory: Directory;
  readonly tails: Tails;
  readonly append: (commands: readonly SubscriptionCommand[]) => Promise<unknown>;
  readonly isDriving: () => boolean;
  readonly runtime: Pick<Runtime, 'nowMs' | 'monotonicMs' | 'setTimer'>;
  readonly log: Logger;
}

export class Linker {
  /** Events of streams that matched a pattern and exceeded the limit of links. */
  refused = 0;
  readonly #options: LinkerOptions;
  /** The latest sighting of each stream that asks for a record, by subscription. */
  readonly #seen = new Map<Subscription, Map<string, Sighting>>();
  /** Sightings whose record is in flight: the subscription does not show yet what it changes. */
  readonly #underWay = new Map<Subscription, ReadonlyMap<string, Sighting>>();
  #flushDue = false;
  readonly #missingSinceMs = new Map<string, number>();
  readonly #due = new Set<Subscription>();
  #reconciling = 0;

  constructor(options: LinkerOptions) {
    this.#options = options;
  }

  /** A stream moved: by an append, its creation or its end. */
  moved(path: string, { incarnation }: StreamTail, removed: boolean): void {
    if (!this.#options.isDriving()) return;
    const { directory } = this.#options;
    const seen = removed ? { incarnation: 0, ended: incarnation } : { incarnation, ended: 0 };
    for (const sub of directory.of(path) ?? []) this.#note(sub, path, seen);
    for (const sub of directory.matching(path)) this.#note(sub, path, seen);
  }

  /** The tail of a linked stream became known on this node. A missing stream keeps its link for now: see #missing. */
  found(path: string, tail: StreamTail): void {
    if (tail.incarnation === 0 || !this.#options.isDriving()) return;
    this.#missingSinceMs.delete(path);
    this.moved(path, tail, false);
    for (const sub of this.#options.directory.of(path) ?? []) {
      const link = sub.links.get(path);
      if (link?.incarnation === tail.incarnation && link.acked > tail.offset) return void this.#confirmTail(path);
    }
  }

  /** Looks for matching streams without a link, and for links without a stream. A few at once; the others wait. */
  reconcile(sub: Subscription): void {
    if (!this.#options.isDriving()) return;
    this.#due.add(sub);
    while (this.#reconciling < RECONCILED_AT_ONCE && this.#due.size > 0) void this.#reconcileNext();
  }

  async #reconcileNext(): Promise<void> {
    this.#reconciling++;
    for (const sub of this.#due) {
      this.#due.delete(sub);
      if (!this.#options.isDriving()) continue;
      try {
        await this.#reconcileOnce(sub);
      } catch (error) {
        this.#options.log.debug(
          { err: error, subscription: sub.id },
          'links could not be reconciled; it is tried again',
        );
        this.#reconcileLater(sub);
      }
    }
    this.#reconciling--;
  }

  #reconcileLater(sub: Subscription): void {
    this.#options.runtime.setTimer(AGAIN_MS, () => this.reconcile(sub));
  }

  async #reconcileOnce(sub: Subscription): Promise<void> {
    const { gateway, machine, tails } = this.#options;
    if (machine.subscriptions.get(sub.id) !== sub) return;
    await tails.known(sub.links.keys());
    for (const path of [...sub.links.keys()]) {
      if (tails.of(path)?.incarnation === 0) await tails.refresh(path);
      const tail = tails.of(path);
      if (tail === undefined) continue;
      this.found(path, tail);
      if (tail.incarnation === 0) this.#missing(sub, path);
    }
    if (sub.config.pattern === null) return;
    // One more than the limit shows whether some exceed it.
    const paths = await listMatching(gateway, sub.config.pattern, SUBSCRIPTION_LINKS_MAX + sub.links.size + 1);
    const missing = paths.filter((path) => !sub.links.has(path) && sub.matches(path));
    if (machine.subscriptions.get(sub.id) !== sub) return;
    await Promise.all(missing.map((path) => tails.want(path)));
    for (const path of missing) {
      const tail = tails.of(path);
      if (tail !== undefined) this.#note(sub, path, { incarnation: tail.incarnation, ended: 0 });
      tails.release(path);
    }
  }

  /** Records what the link needs once the record in flight is folded, if it is needed then. */
  #note(sub: Subscription, path: string, seen: Sighting): void {
    const waiting = this.#seen.get(sub);
    const earlier = waiting?.get(path) ?? this.#underWay.get(sub)?.get(path);
    // Events of a recreated stream may overtake the end of the previous one.
    if (earlier !== undefined && latest(seen) < latest(earlier)) return;
    if (earlier === undefined) {
      const step = stepOf(sub, path, seen);
      if (step === 'none') return;
      if (step === 'link' && !this.#hasRoom(sub, path)) return void this.refused++;
    }
    if (waiting === undefined) this.#seen.set(sub, new Map([[path, seen]]));
    else waiting.set(path, seen);
    this.#flushSoon();
  }

  /** Checks the limits first: without that, every event of a refused stream would be a record that changes nothing. */
  #hasRoom(sub: Subscription, path: string): boolean {
    const waiting = this.#seen.get(sub)?.size ?? 0;
    return (
      sub.links.size + waiting < SUBSCRIPTION_LINKS_MAX && this.#options.machine.refusesLink(sub, path) === undefined
    );
  }

  #flushSoon(): void {
    if (this.#flushDue) return;
    this.#flushDue = true;
    setImmediate(() => {
      this.#flushDue = false;
      for (const [sub, seen] of [...this.#seen]) if (!this.#underWay.has(sub)) void this.#record(sub, seen);
    });
  }

  async #record(sub: Subscription, seen: ReadonlyMap<string, Sighting>): Promise<void> {
    this.#seen.delete(sub);
    const commands = commandsOf(sub, seen, this.#options.runtime.nowMs());
    if (commands.length === 0) return;
    this.#underWay.set(sub, seen);
    await this.#append(sub, commands);
    this.#underWay.delete(sub);
    if (this.#seen.has(sub)) this.#flushSoon();
  }

  #missing(sub: Subscription, path: string): void {
    const known = sub.links.get(path)?.incarnation ?? 0;
    if (known === 0) return;
    // Its end was seen while another node drove the subscription.
    const ended = this.#options.tails.ended(path);
    if (ended >= known) return this.#note(sub, path, { incarnation: 0, ended });
    const clockMs = this.#options.runtime.monotonicMs();
    const sinceMs = this.#missingSinceMs.get(path);
    if (sinceMs !== undefined) {
      if (clockMs - sinceMs > MISSING_MS) void this.#confirmTail(path);
      return;
    }
    if (this.#missingSinceMs.size >= SUBSCRIPTION_LINKS_MAX) this.#missingSinceMs.clear();
    this.#missingSinceMs.set(path, clockMs);
  }

  /** This node's information about the stream may be old; the leader of its group knows. */
  async #confirmTail(path: string): Promise<void> {
    const { gateway, directory, runtime } = this.#options;
    for (const sub of [...(directory.of(path) ?? [])]) {
      const link = sub.links.get(path);
      if (link === undefined || link.incarnation === 0) continue;
      const { incarnation, acked } = link;
      try {
        if ((await reaches(gateway, path, acked)).incarnation === incarnation) continue;
        const tail = await locate(gateway, path);
        const about = { id: sub.id, at: runtime.nowMs(), path, incarnation };
        if (tail.incarnation !== incarnation)
          this.#note(sub, path, { incarnation: tail.incarnation, ended: incarnation });
        else if (tail.offset < acked) await this.#append(sub, [{ op: 'rewind', ...about, offset: tail.offset }]);
      } catch (error) {
        this.#options.log.debug({ err: error, path }, 'a linked stream could not be looked for; it is done again');
        this.#reconcileLater(sub);
      }
    }
  }

  async #append(sub: Subscription, commands: readonly SubscriptionCommand[]): Promise<void> {
    try {
      await this.#options.append(commands);
    } catch (error) {
      this.#options.log.debug(
        { err: error, subscription: sub.id },
        'links could not be recorded; they are looked for again',
      );
      this.#reconcileLater(sub);
    }
  }
}

function latest({ incarnation, ended }: Sighting): number {
  return Math.max(incarnation, ended);
}

/** A link needs the same step whether an event, a sweep or the leader of its group showed the stream. */
function stepOf(sub: Subscription, path: string, { incarnation, ended }: Sighting): 'none' | 'link' | 'end' | 'renew' {
  const known = sub.links.get(path)?.incarnation;
  if (known === undefined) return incarnation !== 0 && sub.matches(path) ? 'link' : 'none';
  const isOver = known !== 0 && incarnation !== known && latest({ incarnation, ended }) >= known;
  if (!isOver) return 'none';
  return incarnation === 0 ? 'end' : 'renew';
}

/** Streams that have ended lose their links first; all new links are one record. */
function commandsOf(sub: Subscription, seen: ReadonlyMap<string, Sighting>, at: number): SubscriptionCommand[] {
  const about = { id: sub.id, at };
  const commands: SubscriptionCommand[] = [];
  const links: LinkPosition[] = [];
  for (const [path, sighting] of seen) {
    const step = stepOf(sub, path, sighting);
    const known = sub.links.get(path)?.incarnation ?? 0;
    if (step === 'end' || step === 'renew') commands.push({ op: 'gone', ...about, path, incarnation: known });
    // It did not exist when the subscription was created, so all of it is new.
    if (step === 'link' || step === 'renew') links.push([path, sighting.incarnation, 0]);
  }
  return links.length === 0 ? commands : [...commands, { op: 'link', ...about, links }];
}
