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
import { UploadPace } from '../../../access/upload-pace.ts';
import { DIGEST_BYTES } from '../../../digest/blake3.ts';
import { decodeUrlPart, parseUint53 } from '../../../protocol/header-values.ts';
import { guardData, readData } from '../../guard.ts';
import { collect } from '../../../protocol/query-string.ts';
import type { Backups, ImportRequest } from '../../../backup/ports.ts';
import type { RequestContext } from '../../request.ts';
import type { UwsResponse } from '../../uws.ts';

const ADOPT: ReadonlySet<string> = new Set(['adopt']);
const CLUSTER_ID = /^[0-9a-f]{32}$/;

type HandleGroup = (call: RequestContext, backups: Backups, group: number) => void;

/** For the handlers of paths with a group. */
export function withGroup(handle: HandleGroup): (call: RequestContext, backups: Backups) => void {
  return (call, backups) => {
    const group = parseUint53(decodeUrlPart(call.path.parameters[0] ?? '') ?? '', 'the group');
    const { groupCount } = call.gateway;
    if (!group.ok) return call.text(400, group.reason);
    if (group.value < groupCount) return handle(call, backups, group.value);
    return call.text(400, `group ${group.value} does not exist; groups are 0 to ${groupCount - 1}`);
  };
}

export function handleBackupInfo(call: RequestContext, { exports, coldGraces, lineage }: Backups): void {
  call.json(200, {
    format_version: BACKUP_FORMAT_VERSION,
    raft_group_count: call.gateway.groupCount,
    ...lineage,
    ...coldGraces,
    ...exports,
  });
}

export function handleExport(call: RequestContext, backups: Backups, group: number): void {
  const response = call.streaming({ isPatient: true });
  backups.exportGroup(group, {
    get isOver() {
      return response.isOver;
    },
    set onOver(told: (() => void) | undefined) {
      response.onOver = told;
    },
    begin: (commitIndex, digest) => {
      const headers = (target: UwsResponse): void => {
        target.writeHeader('content-type', BACKUP_CONTENT_TYPE);
        target.writeHeader('x-svc-backup-format', String(BACKUP_FORMAT_VERSION));
        target.writeHeader('x-svc-backup-commit-index', String(commitIndex));
        if (digest !== undefined) target.writeHeader('x-svc-backup-blake3', digest);
      };
      response.begin({ status: 200, headers });
    },
    write: (piece, next) => response.write(piece, next),
    end: () => response.end(),
    fail: (code, detail) => response.fail(code, detail),
  });
}

/** The request in the headers and the query of an upload; a string: the fault in them. */
function readImport({ req }: RequestContext): ImportRequest | string {
  const named = req.getHeader('x-svc-backup-blake3').toLowerCase();
  if (named !== '' && fromHex(named, DIGEST_BYTES) === undefined) {
    return 'x-svc-backup-blake3 must be the 64 hexadecimal digits of a digest';
  }
  const source = req.getHeader('x-svc-backup-cluster');
  if (source !== '' && !CLUSTER_ID.test(source)) {
    return 'x-svc-backup-cluster must be the 32 hexadecimal digits of a cluster_id';
  }
  const query = collect(req.getQuery() ?? '', ADOPT);
  if (!query.ok) return query.reason;
  const adopt = query.value.get('adopt') ?? 'false';
  if (adopt !== 'true' && adopt !== 'false') return 'adopt must be true or false';
  return {
    digest: named === '' ? undefined : named,
    adopts: adopt === 'true',
    source: source === '' ? undefined : source,
  };
}

export function handleImport(call: RequestContext, backups: Backups, group: number): void {
  const request = readImport(call);
  if (typeof request === 'string') return call.text(400, request);
  const { res, server } = call;
  if (res === undefined) return;
  const pace = new UploadPace(res, call);
  call.keep({ gone: () => feed.abort(), release: () => pace.over() });
  const feed = backups.importGroup(group, request, {
    pause: () => pace.pause(),
    resume: () => pace.resume(),
    json: (status, value) => pace.answer(() => call.json(status, value)),
    text: (status, sentence) => pace.answer(() => call.text(status, sentence)),
    fail: (code, detail) => pace.answer(() => call.refuse(code, detail)),
  });
  let bodyEnded = false;
  const take = guardData(server.logError, call, (chunk, last) => {
    // An answer given early does not stop the upload: what still comes is thrown away.
    if (bodyEnded || call.isOver) return;
    bodyEnded = last;
    if (last) pace.over();
    call.guard(() => {
      if (chunk.byteLength > 0) feed.push(new Uint8Array(chunk));
      if (last) feed.end();
      else pace.came();
    });
  });
  readData(res, take);
}
