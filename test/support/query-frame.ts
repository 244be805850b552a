/** What stands in the frame of a query, whatever its operation calls it: for stand-ins of the shards. The layout is request.ts's. */
import { QUERY, type Request, requestBytesMax, writeRequest } from '../../src/protocol/request.ts';

export interface QueryFrame {
  readonly mode: number;
  readonly readFlags: number;
  readonly topic: number;
  readonly value: number;
  readonly maxBytes: number;
  readonly maxRecords: number;
  readonly prefix: string;
  readonly after: string;
}

const NO_QUERY: QueryFrame = {
  ...{ mode: 0, readFlags: 0, topic: 0, value: 0, maxBytes: 0, maxRecords: 0, prefix: '', after: '' },
};

export function queryFrame(request: Request): QueryFrame {
  if (request.op < 32) return NO_QUERY;
  const bytes = Buffer.alloc(requestBytesMax(request));
  writeRequest(request, 1, 0, bytes, new DataView(bytes.buffer, bytes.byteOffset), 0);
  const prefixAt = QUERY.size + bytes.readUInt16LE(18);
  const afterAt = prefixAt + bytes.readUInt16LE(40);
  return {
    mode: bytes.readUInt8(16),
    readFlags: bytes.readUInt8(17),
    topic: bytes.readUInt32LE(20),
    value: bytes.readDoubleLE(24),
    maxBytes: bytes.readUInt32LE(32),
    maxRecords: bytes.readUInt32LE(36),
    prefix: bytes.toString('utf8', prefixAt, afterAt),
    after: bytes.toString('utf8', afterAt, afterAt + bytes.readUInt16LE(42)),
  };
}
