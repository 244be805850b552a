/** Operations on the node, on groups, and for backups. */
import { BACKUP_CONTENT_TYPE } from '../../src/base/limits.ts';
import {
  ASK,
  type Content,
  type Operation,
  type Operations,
  type OwnRefusal,
  type Refusal,
  WRITE,
} from './operation.ts';
import type { SchemaName } from './schemas.ts';

const SENTENCE: Content = { 'text/plain': 'Sentence' };
const EITHER: Content = { 'application/json': 'NotDone', 'text/plain': 'Sentence' };

const own = (status: number, code: string, text: string, content = SENTENCE): OwnRefusal => ({
  ...{ status, code, text, content },
  ...(status === 503 || status === 507 ? { retry: true } : {}),
});

const INVALID = own(
  400,
  'INVALID_REQUEST',
  'a number, a name or the query is malformed, or makes no sense for the group',
);
const NO_GROUP = own(404, 'NOT_FOUND', 'the group does not exist');
const NOT_LEADER = own(
  409,
  'CONFLICT',
  'this node does not lead the group, and says who does, or the group declines',
  EITHER,
);
const LATE = own(503, 'UNAVAILABLE', 'it is under way, or another change is; repeat the call');
/** Refusals of all calls about a group. */
const GROUP: readonly Refusal[] = [INVALID, NO_GROUP, 'SHARD_BUSY', 'STOPPING', 'INTERNAL'];

const KEYS: readonly Refusal[] = [
  ...(['NO_LEADER', 'LEADER_BUSY', 'OUTCOME_UNKNOWN', 'CATCHING_UP', 'SHARD_BUSY', 'DISK_FULL', 'INTERNAL'] as const),
];
const ROTATION = own(409, 'CONFLICT', 'the key comes from a file, or there is no room for another key');
const SHED = { status: 200, text: 'Whether the node may lead.', content: { 'application/json': 'Shed' } } as const;

function node(
  id: string,
  summary: string,
  answer: Operation['answers'][number],
  refusals: readonly Refusal[],
): Operation {
  return { id, tag: 'node', summary, answers: [answer], refusals };
}

function json(schema: SchemaName, text: string): Operation['answers'][number] {
  return { status: 200, text, content: { 'application/json': schema } };
}

export const OPERATOR_OPERATIONS: Operations = {
  'GET /__svc/openapi.json': node('readOpenApi', 'This document.', json('OpenApi', 'What the plane serves.'), []),

  'GET /__svc/metrics': node(
    'readMetrics',
    'Counters, gauges and histograms.',
    json('Metrics', 'The metrics of this node.'),
    [...(['SHARD_BUSY', 'INTERNAL'] as const)],
  ),

  'GET /__svc/usage': {
    ...node('readUsage', 'The usage meter, as this node has applied it.', json('Usage', 'By bucket.'), ASK),
    headRefusesNothing: true,
  },

  'GET /__svc/health': node('probeHealth', 'The process is up.', json('Health', 'It is.'), []),

  'GET /__svc/ready': node(
    'probeReady',
    'Every group has a leader, and this node has caught up.',
    json('Ready', 'It is so.'),
    [
      'SHARD_BUSY',
      'INTERNAL',
      own(503, 'UNAVAILABLE', 'it is not so; with the token of the admin plane also why', {
        'application/json': 'Ready',
      }),
    ],
  ),

  'GET /__svc/session': {
    ...node(
      'openSession',
      'Opens a session: many streams on one WebSocket.',
      { status: 101, text: 'A WebSocket, on which both sides speak `millrace.session.v1`.' },
      ['UPGRADE_REQUIRED', 'SESSIONS_FULL', 'ORIGIN_NOT_ALLOWED'],
    ),
    text: 'The protocol is documented in `src/session/README.md`. A browser sends its token as the protocol `millrace.bearer.TOKEN`.',
  },

  'POST /__svc/tokens': {
    ...node(
      'narrowToken',
      'Makes a narrower token for the holder of a token.',
      { status: 201, text: 'The token, once.', content: { 'application/json': 'NarrowedToken' } },
      ['INVALID_REQUEST', 'INSUFFICIENT_SCOPE'],
    ),
    text: 'Nodes with `http.signing_key_file` have it. The token ends with the one that asked for it, at the latest. With `"use": "url"` it comes in the query of reads, as `access_token`.',
    body: { text: 'The rights.', content: { 'application/json': 'NarrowingWish' }, isRequired: true },
  },

  'POST /__svc/cluster-probe': {
    ...node(
      'probeSize',
      'What peers post to see that large messages get through.',
      { status: 200, text: 'It came.' },
      [],
    ),
    body: { text: 'Any bytes; they are thrown away.', content: { '*/*': 'Bytes' } },
    bodyRefusals: ['BODY_TOO_LARGE'],
  },

  'GET /__svc/leadership-shed': node('readShed', 'Whether this node may lead groups, and why not.', SHED, []),
  'POST /__svc/leadership-shed/maintenance': node(
    'drain',
    'Sets the drain mark: the node gives its leaders away.',
    SHED,
    [...['INTERNAL' as const]],
  ),
  'DELETE /__svc/leadership-shed/maintenance': node('undrain', 'Lifts the drain mark.', SHED, ['INTERNAL']),

  'GET /__svc/webhook-keys': node(
    'listWebhookKeys',
    'The keys that sign webhooks, and since when.',
    json('WebhookKeys', 'The keys.'),
    KEYS,
  ),
  'POST /__svc/webhook-keys': node(
    'addWebhookKey',
    'Adds a key, which signs ten minutes later.',
    json('WebhookKeys', 'The keys.'),
    [...KEYS, ROTATION],
  ),
  'DELETE /__svc/webhook-keys': node(
    'replaceWebhookKeys',
    'Replaces all keys at once, because one is in wrong hands.',
    json('WebhookKeys', 'The keys.'),
    [...KEYS, ROTATION],
  ),

  'POST /__svc/raft/{group}/snapshot': {
    id: 'checkpointGroup',
    tag: 'raft',
    summary: 'Checkpoints a group.',
    answers: [json('Checkpointed', 'The index of the checkpoint.')],
    refusals: [
      ...GROUP,
      own(503, 'UNAVAILABLE', 'the disk is slow or hangs: an earlier checkpoint is not on it yet'),
      own(507, 'DISK_FULL', 'the disk is full; the checkpoint was not written'),
    ],
  },
  'POST /__svc/raft/{group}/purge': {
    id: 'compactLog',
    tag: 'raft',
    summary: 'Drops the log of a group up to an index.',
    parameters: ['upto'],
    answers: [json('Compacted', 'The last index that is gone.')],
    refusals: GROUP,
  },
  'POST /__svc/raft/{group}/membership': {
    id: 'changeVoters',
    tag: 'raft',
    summary: 'Replaces the set of voters of a group.',
    text: 'It waits up to 10 seconds for the commit. A set most of which is away or behind is refused with 409.',
    parameters: ['voters'],
    answers: [json('Membership', 'The voters.')],
    refusals: [...GROUP, NOT_LEADER, LATE],
  },
  'POST /__svc/raft/{group}/learners/{node}': {
    id: 'addLearner',
    tag: 'raft',
    summary: 'Adds a learner to a group and waits until it has caught up.',
    text: 'It waits up to 10 seconds.',
    parameters: ['addr'],
    answers: [json('Learner', 'It has caught up.')],
    refusals: [...GROUP, NOT_LEADER, LATE],
  },
  'DELETE /__svc/raft/{group}/learners/{node}': {
    id: 'removeLearner',
    tag: 'raft',
    summary: 'Takes a learner out of a group.',
    answers: [json('Learner', 'It is no learner.')],
    refusals: [...GROUP, NOT_LEADER, LATE],
  },
  'POST /__svc/raft/{group}/leader/transfer/{node}': {
    id: 'transferLeader',
    tag: 'raft',
    summary: 'Hands the leadership of a group to another node.',
    answers: [json('Transfer', 'The transfer has begun.')],
    refusals: [...GROUP, NOT_LEADER],
  },
  'POST /__svc/raft/{group}/nodes/{node}/allow-next-revert': {
    id: 'allowRevert',
    tag: 'raft',
    summary: 'Lets a node come back once that has lost its log.',
    answers: [json('Revert', 'It may.')],
    refusals: [
      ...GROUP,
      NOT_LEADER,
      own(500, 'INTERNAL', 'the group refuses, and says so', { 'application/json': 'Revert' }),
    ],
  },
  'POST /__svc/flush-cold/{bucket}/{stream}': {
    id: 'flushCold',
    tag: 'node',
    summary: "Moves a stream's oldest hot bytes to the cold store now.",
    text: 'One object, 8 MiB at most: repeat it until 204. Numbers that cannot be read count as left out.',
    parameters: ['min_hot_bytes', 'max_bytes of a flush'],
    answers: [
      json('Flushed', 'So far the stream is in the cold store.'),
      { status: 204, text: 'The nodes hold too few bytes.' },
    ],
    refusals: [
      ...(['SHARD_BUSY', 'STOPPING', 'INTERNAL'] as const),
      own(404, 'NOT_FOUND', 'stream not found'),
      own(409, 'CONFLICT', 'this node does not lead the group, and says who does, or has no cold store', EITHER),
      own(502, 'COLD_WRITE_FAILED', 'the cold store did not take the object'),
      LATE,
    ],
  },

  'GET /__svc/backup/info': {
    id: 'readBackupInfo',
    tag: 'backup',
    summary: 'Format, number of groups, and which cluster this is.',
    answers: [json('BackupInfo', 'What a backup needs to know.')],
    refusals: [],
  },
  'GET /__svc/backup/group/{group}': {
    id: 'exportGroup',
    tag: 'backup',
    summary: 'Downloads a group as this node has applied it.',
    answers: [
      {
        status: 200,
        text: 'The group.',
        headers: ['X-Svc-Backup-Format', 'X-Svc-Backup-Commit-Index', 'X-Svc-Backup-Blake3'],
        content: { [BACKUP_CONTENT_TYPE]: 'Bytes' },
      },
    ],
    refusals: [
      own(400, 'INVALID_REQUEST', 'the group is no number, or does not exist'),
      ...([
        'SHARD_BUSY',
        'EXPORTS_FULL',
        'GROUP_IMPORTING',
        'CATCHING_UP',
        'STOPPING',
        'DISK_FULL',
        'INTERNAL',
      ] as const),
    ],
  },
  'POST /__svc/backup/group/{group}/import': {
    id: 'importGroup',
    tag: 'backup',
    summary: 'Restores a group from a backup.',
    text: 'The group must be empty. Any node takes it, of any size.',
    parameters: ['adopt', 'X-Svc-Backup-Blake3', 'X-Svc-Backup-Cluster'],
    body: { text: 'The group.', content: { [BACKUP_CONTENT_TYPE]: 'Bytes' }, isRequired: true },
    answers: [json('Imported', 'The group is restored.')],
    refusals: [
      ...WRITE,
      'IMPORT_RUNNING',
      'IMPORT_LOST',
      own(400, 'INVALID_REQUEST', 'the request is malformed, or the document is no state that this group can have'),
      own(409, 'CONFLICT', 'the group is not empty', { 'application/json': 'ImportConflict' }),
    ],
  },
};
