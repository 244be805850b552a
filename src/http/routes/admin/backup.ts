/**
 * Backup and restore on the admin plane:
 *
 *   GET  /__svc/backup/info                  format, number of groups, which cluster, graces of the cold store; why last exports ended early
 *   GET  /__svc/backup/group/{g}             the group as this node has applied it
 *   POST /__svc/backup/group/{g}/import      into an empty group, through any node; ?adopt=true: the source is gone for good, and its
 *                                            objects in the cold store are this cluster's to delete from now on
 *
 * A download goes at the pace of its reader, an upload at that of the log: neither is ever held as a whole.
 */
import { BACKUP_CONTENT_TYPE, BACKUP_FORMAT_VERSION } from '../../../base/limits.ts';
import { fromHex } from '../../../base/hex.ts';
import type { Backups } from '../../../backup/ports.ts';
import { DIGEST_BYTES } from '../../../digest/blake3.ts';
import { decodePathSegment, parseUint53 } from '../../../protocol/header-values.ts';
import { Flow } from '../../flow.ts';
import { Gathering } from '../../gather.ts';
import { guardAbort, guardData, readData, takeOver } from '../../guard.ts';
import { Outpour } from '../../outpour.ts';
import { collect } from '../../query.ts';
import type { ServiceCall } from './service-call.ts';

export const BACKUP_PREFIX = '/__svc/backup/';
const ADOPT: ReadonlySet<string> = new Set(['adopt']);
const CLUSTER_ID = /^[0-9a-f]{32}$/;

export function handleBackup(call: ServiceCall, backups: Backups, path: string, method: string): void {
  const { plane, res, responder, startedMs } = call;
  const rest = path.slice(BACKUP_PREFIX.length).split('/');
  const isInfo = rest.length === 1 && rest[0] === 'info';
  const isImport = rest.length === 3 && rest[2] === 'import';
  if (!isInfo && (rest[0] !== 'group' || (rest.length !== 2 && !isImport))) {
    return plane.refuse(res, responder, 'bucketed', 'other', startedMs, 'ROUTE_NOT_FOUND');
  }
  const wanted = isImport ? method === 'post' : method === 'get';
  if (!wanted) {
    return plane.count('other', responder.methodNotAllowed(res, isImport ? 'POST' : 'GET'), startedMs);
  }
  if (isInfo) return answerInfo(call, backups);
  const group = parseUint53(decodePathSegment(rest[1] as string) ?? '', 'the group');
  const { groupCount } = plane.ctx.gateway;
  if (!group.ok || group.value >= groupCount) {
    const reason = group.ok ? `group ${group.value} does not exist; groups are 0 to ${groupCount - 1}` : group.reason;
    responder.text(res, 400, reason);
    return plane.count('other', 400, startedMs);
  }
  return isImport ? receive(call, backups, group.value) : send(call, backups, group.value);
}

function answerInfo(
  { plane, res, responder, startedMs }: ServiceCall,
  { endedExports, coldGraces, lineage }: Backups,
): void {
  const info = {
    format_version: BACKUP_FORMAT_VERSION,
    raft_group_count: plane.ctx.gateway.groupCount,
    ...lineage,
    ...coldGraces,
    ...(endedExports.length === 0 ? {} : { exports_ended_early: endedExports }),
  };
  responder.json(res, 200, JSON.stringify(info));
  plane.count('other', 200, startedMs);
}

function send({ plane, res, responder, startedMs }: ServiceCall, backups: Backups, group: number): void {
  const outpour = new Outpour(plane, res, responder, 'other', startedMs, true);
  backups.exportGroup(group, {
    get isOver() {
      return outpour.isOver;
    },
    set onOver(told: (() => void) | undefined) {
      outpour.onOver = told;
    },
    begin: (commitIndex, digest) =>
      outpour.begin(200, (target) => {
        target.writeHeader('content-type', BACKUP_CONTENT_TYPE);
        target.writeHeader('x-svc-backup-format', String(BACKUP_FORMAT_VERSION));
        target.writeHeader('x-svc-backup-commit-index', String(commitIndex));
        if (digest !== undefined) target.writeHeader('x-svc-backup-blake3', digest);
      }),
    write: (piece, next) => outpour.write(piece, next),
    end: () => outpour.end(),
    fail: (code, detail) => outpour.fail(code, detail),
  });
}

function receive({ plane, res, req, responder, startedMs }: ServiceCall, backups: Backups, group: number): void {
  const named = req.getHeader('x-svc-backup-blake3');
  if (named !== '' && fromHex(named.toLowerCase(), DIGEST_BYTES) === undefined) {
    responder.text(res, 400, 'x-svc-backup-blake3 must be the 64 hexadecimal digits of a digest');
    return plane.count('other', 400, startedMs);
  }
  const source = req.getHeader('x-svc-backup-cluster');
  if (source !== '' && !CLUSTER_ID.test(source)) {
    responder.text(res, 400, 'x-svc-backup-cluster must be the 32 hexadecimal digits of a cluster_id');
    return plane.count('other', 400, startedMs);
  }
  const query = collect(req.getQuery() ?? '', ADOPT);
  const adopt = query.ok ? (query.value.get('adopt') ?? 'false') : '';
  if (adopt !== 'true' && adopt !== 'false') {
    responder.text(res, 400, query.ok ? 'adopt must be true or false' : query.reason);
    return plane.count('other', 400, startedMs);
  }
  const wanted = {
    digest: named === '' ? undefined : named.toLowerCase(),
    adopts: adopt === 'true',
    source: source === '' ? undefined : source,
  };
  const gathering = new Gathering(plane, res, responder, 'other', startedMs);
  const flow = new Flow(res, gathering);
  const feed = backups.importGroup(group, wanted, {
    pause: () => flow.pause(),
    resume: () => flow.resume(),
    json: (status, value) => flow.answer(() => gathering.json(status, value)),
    text: (status, sentence) => flow.answer(() => gathering.text(status, sentence)),
    fail: (code, detail) => flow.answer(() => gathering.refuse(code, detail)),
  });
  // In place of the one that Gathering set.
  const gone = guardAbort(plane.logError, gathering, () => {
    gathering.aborted();
    feed.abort();
  });
  takeOver(res, gathering, gone);
  let bodyEnded = false;
  const take = guardData(plane.logError, gathering, (chunk, last) => {
    // An answer given early does not stop the upload: what still comes is thrown away.
    if (bodyEnded || gathering.isOver) return;
    bodyEnded = last;
    gathering.guard(() => {
      if (chunk.byteLength > 0) feed.push(new Uint8Array(chunk));
      if (last) feed.end();
      else flow.came();
    });
  });
  readData(res, take);
}
