/** Says in sentences what is not as it should be, for the terminal and the console. Pure. */
import { type ClusterSnapshot, foreignTo, groupViews, leaderships, listOf, nameGroups } from './cluster-snapshot.ts';
import { type ColdAway, type NodeReport, isMarked } from './report.ts';

/** `info` is no fault. `warn`: something works less well, or will not for long. `bad`: requests fail or wait. */
export type Severity = 'info' | 'warn' | 'bad';

export interface Finding {
  readonly severity: Severity;
  /** A comparison of all nodes means nothing where only one was asked. */
  readonly from: 'node' | 'comparison';
  readonly text: string;
  /** The node does not answer; the console knows for how long, and says that instead. */
  readonly isSilence?: true;
}

/** As much of a node of the cluster file as the sentences name. */
export interface NamedNode {
  readonly id: number;
  readonly host: string;
}

export function findings(nodes: readonly NamedNode[], snapshot: ClusterSnapshot): Finding[] {
  const answers = snapshot.filter(({ report }) => report !== undefined);
  const views = groupViews(snapshot);
  const found: Finding[] = [overview(nodes, snapshot)];
  const compare = (severity: Severity, text: string): void => void found.push({ severity, from: 'comparison', text });
  const versions = told(snapshot, ({ version }) => (version === '' ? undefined : version));
  if (versions.size > 1) compare('warn', `versions differ: ${nameTold(versions)}`);
  const clusterIds = clusterIdsOf(snapshot);
  if (clusterIds.size > 1) {
    const ids = nameTold(clusterIds);
    compare('bad', `the data directories are of several clusters (cluster_id), which do not talk: ${ids}`);
  }
  const backupMs = backupAgeOf(snapshot);
  if (backupMs > BACKUP_AGE_MS_MAX)
    compare('warn', `the last whole backup is ${formatAge(backupMs)} old: millracectl backup-create makes one`);
  for (const { nodeId, report, error } of snapshot) {
    const name = `node ${nodeId} (${nodes.find(({ id }) => id === nodeId)?.host ?? ''})`;
    if (report === undefined)
      found.push({
        severity: 'bad',
        from: 'node',
        text: `${name}: metrics unavailable — ${error}`,
        isSilence: true,
      });
    else found.push(...faultsOf(report, foreignTo(snapshot, nodeId)).map((fault) => ofNode(name, fault)));
  }
  const leaderless = views.filter(({ leader }) => leader === undefined).map(({ id }) => id);
  if (leaderless.length > 0) {
    const text = `${nameGroups(leaderless)} ${leaderless.length === 1 ? 'has' : 'have'} no leader: writes wait`;
    found.push({ severity: 'bad', from: 'node', text });
  }
  const answering = answers.map(({ nodeId }) => nodeId);
  const asleep = views.filter(({ voters, outgoing }) =>
    [voters, outgoing].some((half) => half.length > 0 && !hasMajority(half, answering)),
  );
  if (asleep.length > 0) compare('bad', `${nameGroups(asleep.map(({ id }) => id))}: most voters do not answer here`);
  return found;
}

/** No cluster has more nodes that lead; an answer that names more is not worth reading on. */
const LEADERS_SHOWN = 64;

function overview(nodes: readonly NamedNode[], snapshot: ClusterSnapshot): Finding {
  const answers = snapshot.filter(({ report }) => report !== undefined).length;
  const views = groupViews(snapshot);
  const all = [...leaderships(snapshot)].sort(([a], [b]) => a - b).map(([id, count]) => `${id}: ${count}`);
  const leaders = all.length > LEADERS_SHOWN ? [...all.slice(0, LEADERS_SHOWN), '...'] : all;
  const groups = views.length === 1 ? '1 group' : `${views.length} groups`;
  const text = `${answers} of ${nodes.length} nodes answer; ${groups}, leaders={${leaders.join(', ')}}`;
  return { severity: 'info', from: 'comparison', text };
}

/** A backup a day, and half a day for what may go wrong with one. The alert MillraceBackupOld has the same bound. */
const BACKUP_AGE_MS_MAX = 36 * 3_600_000;

/** The age of the group that was exported longest ago; 0 when the nodes know of no backup. */
function backupAgeOf(snapshot: ClusterSnapshot): number {
  const ages = new Map<number, number>();
  for (const { report } of snapshot) {
    for (const [group, ageMs] of report?.exportAgesMs ?? []) ages.set(group, Math.min(ageMs, ages.get(group) ?? ageMs));
  }
  return Math.max(0, ...ages.values());
}

/** The node's log and the alerts Millrace*CertificateEnding have the same bounds. */
const CERTIFICATE_WARN_MS = 30 * 86_400_000;
const CERTIFICATE_URGENT_MS = 7 * 86_400_000;

/** None while it lasts, or without one. */
function certificateFaults(leftMs: number | undefined, name: string, refusers: string): Fault[] {
  if (leftMs === undefined || leftMs >= CERTIFICATE_WARN_MS) return [];
  if (leftMs <= 0)
    return [bad(`${name} has ended, and ${refusers} refuse it: renew what its log names, and send SIGHUP`)];
  const text = `${name} ends in ${formatAge(leftMs)}: renew what its log names, and send SIGHUP`;
  return [leftMs < CERTIFICATE_URGENT_MS ? bad(text) : warn(text)];
}

/** Which nodes say what, of those that say it. */
function told(snapshot: ClusterSnapshot, what: (report: NodeReport) => string | undefined): Map<string, number[]> {
  const all = new Map<string, number[]>();
  for (const { nodeId, report } of snapshot) {
    const said = report === undefined ? undefined : what(report);
    if (said !== undefined) all.set(said, [...(all.get(said) ?? []), nodeId]);
  }
  return all;
}

function nameTold(all: ReadonlyMap<string, readonly number[]>): string {
  return [...all].map(([said, ids]) => `${said} on node${ids.length > 1 ? 's' : ''} ${listOf(ids)}`).join(', ');
}

/** The id that most nodes report comes first. */
export function clusterIdsOf(snapshot: ClusterSnapshot): Map<string, number[]> {
  const all = told(snapshot, ({ clusterId }) => clusterId);
  return new Map([...all].sort(([, a], [, b]) => b.length - a.length));
}

interface Fault {
  readonly severity: Severity;
  readonly text: string;
}

function ofNode(name: string, { severity, text }: Fault): Finding {
  return { severity, from: 'node', text: `${name}: ${text}` };
}

const warn = (text: string): Fault => ({ severity: 'warn', text });
const bad = (text: string): Fault => ({ severity: 'bad', text });

function faultsOf(report: NodeReport, foreign: readonly number[]): Fault[] {
  const behind = report.groups.filter(({ caughtUp }) => !caughtUp).map(({ id }) => id);
  const faults: Fault[] = [];
  const isEmpty = (id: number): boolean => report.groups.some((group) => group.id === id && group.applied === 0);
  const left = foreign.filter((id) => !isEmpty(id));
  const coming = foreign.filter(isEmpty);
  if (left.length > 0)
    faults.push(bad(`no member of ${nameGroups(left)}, takes no writes there and may show old bytes: stop it`));
  if (coming.length > 0)
    faults.push(warn(`not yet a member of ${nameGroups(coming)}, where it has nothing: add-member adds it`));
  if (isMarked(report)) faults.push(warn('marked for maintenance, leads nothing until undrain'));
  if (report.shedState.includes('cluster-egress'))
    faults.push(warn('its probes do not reach a majority of the nodes, so it gives its leaderships away'));
  if (report.shedState.includes('cold-health'))
    faults.push(warn('it does not reach the cold store, so it gives its leaderships to nodes that do'));
  if (report.shedState.includes('commit-stall'))
    faults.push(warn('it gave up leaderships under which nothing was committed: look at its links and disks'));
  if (report.coldAway !== undefined) faults.push(warn(coldFault(report, report.coldAway)));
  if (report.diskFull) faults.push(bad('its disk is full, writes are answered 507'));
  if (report.admission === 'refusing')
    faults.push(bad('too many bytes wait for the cold store, writes are answered 503'));
  if (report.damagedRows > 0) faults.push(bad(damageOf(report)));
  if (report.differingGroups > 0)
    faults.push(
      bad(`it has other rows than most replicas in ${report.differingGroups} of its groups, and takes theirs`),
    );
  if (report.undecidedGroups > 0) faults.push(bad(undecidedOf(report)));
  faults.push(...certificateFaults(report.certificateLeftMs, 'its certificate or an authority', 'clients'));
  faults.push(
    ...certificateFaults(report.linkCertificateLeftMs, 'its certificate or an authority for links', 'other nodes'),
  );
  if (behind.length > 0) faults.push(bad(`not caught up in ${nameGroups(behind)}, reads wait`));
  return faults;
}

function damageOf({ damagedRows, stoppedGroups }: NodeReport): string {
  const stopped = stoppedGroups === 0 ? '' : ` and stopped ${stoppedGroups} of its groups`;
  return `its disk changed rows of the state (${damagedRows})${stopped}, what needs them is refused: replace the disk`;
}

function undecidedOf({ undecidedGroups }: NodeReport): string {
  return `the replicas of ${undecidedGroups} groups that it leads have different rows, and no majority has the same: compare them`;
}

function coldFault({ backlogBytes }: NodeReport, { since, wasReached, reason }: ColdAway): string {
  const sinceWhen = since === '' ? '' : ` since ${since}`;
  const what = wasReached
    ? `the cold store fails${sinceWhen}`
    : `the cold store was not reached since the node started${since === '' ? '' : ` (${since})`}`;
  const why = reason === '' ? '' : ` (${reason})`;
  return `${what}, ${formatBytes(backlogBytes)} of what it leads wait for it${why}`;
}

function hasMajority(voters: readonly number[], answering: readonly number[]): boolean {
  return voters.filter((voter) => answering.includes(voter)).length * 2 > voters.length;
}

export interface NodeFacts {
  readonly isForeign: boolean;
  /** The node leads a group, as far as any node knows. */
  readonly isLeading: boolean;
}

/** The state of a node in one or two words; the sentences say more. */
export function stateOf(report: NodeReport, { isForeign, isLeading }: NodeFacts): string {
  const words: string[] = [];
  if (isForeign) words.push('not a member');
  if (isMarked(report)) words.push(isLeading ? 'draining' : 'drained');
  if (report.shedState.includes('cluster-egress')) words.push('cut off');
  if (report.shedState.includes('cold-health')) words.push('no cold store');
  else if (report.coldAway !== undefined) words.push('cold store away');
  if (report.shedState.includes('commit-stall')) words.push('stalled');
  if (report.diskFull) words.push('disk full');
  if (report.admission === 'refusing') words.push('refusing writes');
  if (report.damagedRows > 0) words.push('damaged');
  if (report.differingGroups > 0 || report.undecidedGroups > 0) words.push('differs');
  if (report.groups.some(({ leader }) => leader === undefined)) words.push('no leader');
  if (report.groups.some(({ caughtUp }) => !caughtUp)) words.push('behind');
  return words.length === 0 ? 'ok' : words.join(', ');
}

export function formatBytes(bytes: number): string {
  const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  const power = Math.min(UNITS.length - 1, bytes < 1 ? 0 : Math.floor(Math.log2(bytes) / 10));
  const value = bytes / 1024 ** power;
  return `${power === 0 || value >= 100 ? Math.round(value) : value.toFixed(1)} ${UNITS[power]}`;
}

export function formatAge(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}
