/** Locates a stream, even when this node knows less of it than another one. */
import { type ErrorCode, MillraceError } from '../../base/errors.ts';
import type { ShardGateway } from '../../ports.ts';
import type { StreamTail } from '../state/decide.ts';
import { splitFlatPath } from '../../protocol/flat-path.ts';
import { READ_FLAG_NO_TOUCH } from '../../protocol/queries/read.ts';
import { READ_OFFSET } from '../../protocol/read-fields.ts';
import { callStream } from '../../gateway/shard-client.ts';
import { QUERIES } from '../../protocol/operations.ts';

const ABSENT: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['STREAM_NOT_FOUND', 'STREAM_DELETED']);
/** The stream had that offset, whether or not a reader may begin there. */
const PASSED: ReadonlySet<ErrorCode> = new Set<ErrorCode>(['OFFSET_INSIDE_RECORD', 'STREAM_GONE']);
const NOTHING: StreamTail = { incarnation: 0, offset: 0 };

/** Asks the leader before it reports that the stream does not exist. */
export async function locate(gateway: ShardGateway, path: string): Promise<StreamTail> {
  const answer = await callStream(gateway, QUERIES.head, splitFlatPath(path));
  if (ABSENT.has(answer.code)) return NOTHING;
  if (answer.code !== 'OK') throw new MillraceError(answer.code);
  return { incarnation: answer.result.incarnation, offset: answer.nextOffset };
}

interface Reached {
  /** 0: it does not. */
  readonly incarnation: number;
  /** Why not. */
  readonly code: ErrorCode;
}

/** The stream's incarnation if it reaches that offset, after asking the leader. */
export async function reaches(gateway: ShardGateway, path: string, offset: number): Promise<Reached> {
  const answer = await callStream(gateway, QUERIES.read, {
    ...splitFlatPath(path),
    ...{ mode: READ_OFFSET, value: offset, maxBytes: 1, readFlags: READ_FLAG_NO_TOUCH },
  });
  const { code } = answer;
  if (code === 'OK') return { incarnation: answer.result.incarnation, code };
  if (PASSED.has(code)) return { incarnation: (await locate(gateway, path)).incarnation, code };
  if (ABSENT.has(code) || code === 'OFFSET_OUT_OF_RANGE') return { incarnation: 0, code };
  throw new MillraceError(code);
}
