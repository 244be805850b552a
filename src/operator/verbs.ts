/** All verbs, in the order in which --help shows them. */
import type { Verb } from './context.ts';
import { backupCreate, backupVerify, restore } from './verbs/backup.ts';
import { bench } from './verbs/bench.ts';
import { completion } from './completion.ts';
import { contextAdd, contextLs, contextRm, contextUse } from './verbs/contexts.ts';
import { drain, transfer, undrain } from './verbs/drain.ts';
import { consoleVerb, exporter } from './verbs/serving.ts';
import { exportVerb, importVerb } from './verbs/moving.ts';
import { addMemberVerb, members, removeMemberVerb } from './verbs/members.ts';
import { verifyCluster, wait, waitReady } from './verbs/ready.ts';
import { allowRejoin, prepareRestart } from './verbs/rejoin.ts';
import { restart } from './verbs/restart.ts';
import { salvage } from './verbs/salvage.ts';
import { health, status } from './verbs/status.ts';
import { streamCat, streamLs, streamStat, streamTail } from './verbs/stream-read.ts';
import { streamAttrs, streamFork, streamSnapshot } from './verbs/stream-parts.ts';
import { streamAppend, streamClose, streamCreate, streamRm } from './verbs/stream-write.ts';
import { subscriptionLs, subscriptionStat } from './verbs/subscriptions.ts';
import { sign } from './verbs/sign.ts';
import { audit } from './verbs/audit.ts';
import { tokenInspect, tokenIssue, tokenRevoke } from './verbs/tokens.ts';
import { bucketLs, bucketPurge, bucketQuota, flushCold, usage, webhookKeys } from './verbs/tenants.ts';

export const VERBS: readonly Verb[] = [
  status,
  health,
  consoleVerb,
  exporter,
  waitReady,
  drain,
  undrain,
  transfer,
  restart,
  wait,
  verifyCluster,
  allowRejoin,
  prepareRestart,
  members,
  addMemberVerb,
  removeMemberVerb,
  streamLs,
  streamCat,
  streamTail,
  streamStat,
  streamCreate,
  streamAppend,
  streamClose,
  streamRm,
  streamAttrs,
  streamFork,
  streamSnapshot,
  bucketLs,
  bucketQuota,
  bucketPurge,
  flushCold,
  usage,
  subscriptionLs,
  subscriptionStat,
  webhookKeys,
  tokenIssue,
  tokenInspect,
  tokenRevoke,
  sign,
  audit,
  backupCreate,
  backupVerify,
  restore,
  salvage,
  bench,
  exportVerb,
  importVerb,
  contextAdd,
  contextUse,
  contextLs,
  contextRm,
  completion,
];
