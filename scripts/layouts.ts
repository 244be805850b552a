/** The tables of layouts in the documents, from the declarations in the code. */
import { IMPORT_ROW } from '../src/stream/core/import-mark.ts';
import { SENT_ROW } from '../src/base/row-bytes.ts';
import type { Struct } from '../src/base/struct.ts';
import { CHUNK_HEAD, CHUNK_ROW } from '../src/stream/cold/chunk-layout.ts';
import { GC_ROW, OBJECT_ROW } from '../src/stream/cold/objects.ts';
import { RELEASE_ROW } from '../src/stream/cold/release.ts';
import { FORK_ROW, PIN_ROW, TOMBSTONE_ROW } from '../src/stream/core/fork-rows.ts';
import { ITEM } from '../src/group/entry.ts';
import { CHECKED_BODY } from '../src/protocol/checked-body.ts';
import { COMPARISON, DIGEST } from '../src/peer/codec/comparison.ts';
import { FORWARD, FORWARD_PIECE, FORWARD_REPLIES, FORWARD_REPLY } from '../src/peer/codec/forward.ts';
import { FRAME } from '../src/peer/codec/frame.ts';
import { HELLO, IDENTITY, REFUSAL, WORD } from '../src/peer/codec/handshake.ts';
import { RAFT_ITEM } from '../src/peer/codec/raft-frame.ts';
import { SNAPSHOT_ACK, SNAPSHOT_BEGIN, SNAPSHOT_CHUNK, SNAPSHOT_END } from '../src/peer/codec/snapshot-transfer.ts';
import {
  ATTRIBUTES_PART,
  COMMAND,
  CONDITION_PART,
  EXPECTED_PART,
  FORK_PART,
  LIFETIME_PART,
  MATCH_PART,
  PRODUCER_PART,
  SEQ_PART,
} from '../src/protocol/command-layout.ts';
import { QUOTA } from '../src/protocol/bucket-command.ts';
import { CHUNK_PLACE, PLAN_RANGE } from '../src/protocol/cold.ts';
import { FORK_DATA } from '../src/protocol/fork-command.ts';
import { IMPORT_TOTALS } from '../src/protocol/import-command.ts';
import { PIECE } from '../src/protocol/piece.ts';
import { POSITION } from '../src/protocol/position-command.ts';
import { READ } from '../src/protocol/read-fields.ts';
import { REPLY } from '../src/protocol/reply.ts';
import { REQUEST } from '../src/protocol/request.ts';
import { STAGE } from '../src/protocol/stage.ts';
import { APPEND, APPENDED, APPENDED_ENTRY, APPEND_HINT } from '../src/raft/codec/append.ts';
import { RECOVERY_NOTE } from '../src/raft/codec/codec.ts';
import { HEARTBEAT, HEARTBEAT_ANSWER } from '../src/raft/codec/heartbeat.ts';
import { MESSAGE } from '../src/raft/codec/message.ts';
import { ID_LIST, SNAPSHOT } from '../src/raft/codec/snapshot.ts';
import { READ_INDEX, READ_INDEX_ANSWER, VOTE } from '../src/raft/codec/plain.ts';
import { CUT_ROW, GROUP_KEY, LOG_ROW, PEER_KEY, PEER_ROW, RUN_ROW, VOTE_ROW } from '../src/store/rows.ts';
import { MOVED_ROW } from '../src/store/row-check.ts';
import { LOG_ENTRY } from '../src/store/log-entry.ts';
import { RECORD_HEAD, RECORD_HEAD_1, SECTOR_STAMP } from '../src/store/log-record.ts';
import { LMDB_LOG_ENTRY, LMDB_LOG_KEY } from '../src/store/lmdb-log.ts';
import { BUCKET_ROW } from '../src/stream/core/buckets.ts';
import { GARBAGE_MARK } from '../src/stream/core/garbage.ts';
import { HEAD_ROW } from '../src/stream/core/head.ts';
import { INCARNATION_KEY, PART_KEY, POSITION_KEY, TIMED_KEY, TOKEN_KEY } from '../src/stream/core/keys.ts';
import { META_ROW } from '../src/stream/core/meta.ts';
import { PARTIAL_ROW } from '../src/stream/core/partial-command.ts';
import { PRODUCER_ROW, RECEIPT } from '../src/stream/core/producers.ts';
import { DATA_ROW, START_ROW } from '../src/stream/core/row.ts';

type Layouts = Readonly<Record<string, Pick<Struct, 'fields' | 'rest'>>>;

/** By document: what a record is called there. */
export const LAYOUTS: Readonly<Record<string, Layouts>> = {
  'src/store/README.md': {
    'log: record': RECORD_HEAD,
    'log: end of each sector': SECTOR_STAMP,
    'log: entry or vote': LOG_ENTRY,
    'log: record of version 1': RECORD_HEAD_1,
    'state: key about a group': GROUP_KEY,
    'state: key about a node': PEER_KEY,
    '`v`': VOTE_ROW,
    '`g`': LOG_ROW,
    '`c`': CUT_ROW,
    '`p`': PEER_ROW,
    '`r`': RUN_ROW,
    'state: bytes of a full page': MOVED_ROW,
    'log in LMDB (format 2): key': LMDB_LOG_KEY,
    'log in LMDB (format 2): entry': LMDB_LOG_ENTRY,
  },
  'src/stream/README.md': {
    'key with an incarnation': INCARNATION_KEY,
    'key with a position': POSITION_KEY,
    'key of `f` and `x`': TIMED_KEY,
    'key of `U`': TOKEN_KEY,
    'key of a page of `B`': PART_KEY,
    '`h`': HEAD_ROW,
    '`d`': DATA_ROW,
    '`r` · `C`': START_ROW,
    '`p`': PRODUCER_ROW,
    'receipt of a producer': RECEIPT,
    '`b`': BUCKET_ROW,
    '`m`': META_ROW,
    '`g`, unless it is empty': GARBAGE_MARK,
    '`B`': PARTIAL_ROW,
  },
  'src/forks/README.md': { '`F`': FORK_ROW, '`P`': PIN_ROW, '`T`': TOMBSTONE_ROW },
  'src/cold/README.md': {
    chunk: CHUNK_HEAD,
    'row of a chunk': CHUNK_ROW,
    '`o`': OBJECT_ROW,
    '`q`': GC_ROW,
    '`w`': RELEASE_ROW,
  },
  'src/backup/README.md': { '`i`': IMPORT_ROW },
  'src/protocol/README.md': {
    request: REQUEST,
    'read, behind the request': READ,
    reply: REPLY,
    'stage of a traced request': STAGE,
    'command in a log entry': ITEM,
    command: COMMAND,
    producer: PRODUCER_PART,
    'record match': MATCH_PART,
    lifetime: LIFETIME_PART,
    'sequence token': SEQ_PART,
    fork: FORK_PART,
    'expected offset': EXPECTED_PART,
    condition: CONDITION_PART,
    attributes: ATTRIBUTES_PART,
    'place of a chunk': CHUNK_PLACE,
    'plan of a cold read, behind its key': PLAN_RANGE,
    'payload of quota': QUOTA,
    'position in a payload': POSITION,
    'payload of a piece': PIECE,
    'payload of forkData': FORK_DATA,
    'payload of importEnd, behind its token': IMPORT_TOTALS,
  },
  'src/peer/README.md': {
    'frame of the handshake': WORD,
    identity: IDENTITY,
    'HELLO, after the identity': HELLO,
    REFUSAL,
    frame: FRAME,
    'item of a RAFT frame': RAFT_ITEM,
    message: MESSAGE,
    'recovery note': RECOVERY_NOTE,
    vote: VOTE,
    append: APPEND,
    'entry of an append': APPENDED_ENTRY,
    'append response': APPENDED,
    hint: APPEND_HINT,
    heartbeat: HEARTBEAT,
    'heartbeat response': HEARTBEAT_ANSWER,
    'read index': READ_INDEX,
    'read index response': READ_INDEX_ANSWER,
    snapshot: SNAPSHOT,
    'list of ids': ID_LIST,
    SNAPSHOT_BEGIN: SNAPSHOT_BEGIN,
    'SNAPSHOT_CHUNK: rows': SNAPSHOT_CHUNK,
    'row in it': SENT_ROW,
    SNAPSHOT_END: SNAPSHOT_END,
    SNAPSHOT_ACK: SNAPSHOT_ACK,
    'item of a FORWARD frame': FORWARD,
    FORWARD_PIECE,
    FORWARD_REPLY: FORWARD_REPLIES,
    'item in it': FORWARD_REPLY,
    'end of a checked body': CHECKED_BODY,
    'question about the rows of a replica': COMPARISON,
    'answer to it': DIGEST,
  },
};

export function describeLayouts(layouts: Layouts): string {
  const rows = Object.entries(layouts).map(([name, { fields, rest }]) => {
    const parts = Object.entries(fields).map(([field, { at, kind }]) =>
      kind === 'zero' ? `${at} zero` : `${at} \`${field}\` ${kind}`,
    );
    return `| ${name} | ${parts.join(', ')} | ${rest} |`;
  });
  return ['| Record | Fields, each with its place | Then |', '| --- | --- | --- |', ...rows, ''].join('\n');
}
