// The judge of traces must be able to convict: canned traces, one good and one for each way to acknowledge too early.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { earlyAcknowledgements, parseTrace } from './trace.ts';

const LOG = '21</data/shard-0/log/segment-1>';
const OTHER = '22</data/shard-0/log/segment-2>';
const STATE = '23</data/shard-0/data.mdb>';
const SOCKET = '30<TCP:[127.0.0.1:4437->127.0.0.1:50000]>';
const write = (thread: number): string =>
  `${thread} 10:00:00.000001 pwrite64(${LOG}, "\\2\\0probe-1", 4096, 8192) = 4096`;
const sync = (thread: number): string => `${thread} 10:00:00.000002 fdatasync(${LOG}) = 0`;
const ack = (thread: number): string =>
  `${thread} 10:00:00.000004 sendto(${SOCKET}, "HTTP/1.1 204 No Content\\r\\n", 60, MSG_NOSIGNAL, NULL, 0) = 60`;
const begun = (line: string): string => line.replace(/\) += -?\d+$/, ' <unfinished ...>');
const resumed = (line: string): string =>
  line.replace(/^(\d+ \S+) (\w+)\(.*\) += (-?\d+)$/, '$1 <... $2 resumed>) = $3');

function judge(lines: readonly string[], dsync = false): string {
  const facts = { dsyncFds: new Set(dsync ? [21] : []), logPath: '/log/segment-', port: 4437 };
  const questions = [{ payload: 'probe-1', answer: 'HTTP/1.1 204' }];
  return earlyAcknowledgements(parseTrace(lines.join('\n')), questions, facts).join('\n');
}

test('lines of strace become calls, also when they were split', () => {
  const [call] = parseTrace(
    [begun(write(7)), '8 10:00:00.5 write(5<anon_inode:[eventfd]>, "\\1", 8) = 8', resumed(write(7))].join('\n'),
  ).slice(1);
  assert.equal(call?.name, 'pwrite64');
  assert.equal(call?.fd, 21);
  assert.equal(call?.file, '/data/shard-0/log/segment-1');
  assert.deepEqual([call?.start, call?.end, call?.result], [0, 2, 4096]);
});

test('an acknowledgement after write and sync is in order', () => {
  assert.equal(judge([write(7), sync(7), ack(1)]), '');
  const other = '1 10:00:00.1 +++ exited with 0 +++';
  assert.equal(judge([begun(write(7)), other, resumed(write(7)), begun(sync(7)), resumed(sync(7)), ack(1)]), '');
  assert.equal(judge([write(7), ack(1)], true), '', 'a descriptor with O_DSYNC');
  // A checkpoint may carry the same bytes, whenever it likes.
  const checkpoint = write(7).replace(LOG, STATE);
  assert.equal(judge([write(7), sync(7), begun(checkpoint), ack(1), resumed(checkpoint)]), '');
});

test('every way to acknowledge too early is found', () => {
  assert.match(judge([ack(1), write(7), sync(7)]), /before its log write returned/);
  assert.match(judge([begun(write(7)), ack(1), resumed(write(7)), sync(7)]), /before its log write returned/);
  assert.match(judge([begun(write(7)), ack(1), resumed(write(7))], true), /before its log write returned/);
  assert.match(judge([write(7), ack(1), sync(7)]), /no sync of .* returned before/);
  assert.match(judge([write(7), begun(sync(7)), ack(1), resumed(sync(7))]), /no sync of .* returned before/);
  assert.match(judge([begun(sync(7)), write(8), resumed(sync(7)), ack(1)]), /no sync of .* returned before/);
  assert.match(judge([write(7), sync(7).replace(LOG, OTHER), ack(1)]), /no sync of .* returned before/);
  assert.match(judge([sync(7), ack(1)]), /never written/);
  assert.match(judge([write(7).replace(LOG, STATE), sync(7).replace(LOG, STATE), ack(1)]), /never written to the log/);
  assert.match(judge([write(7), sync(7)]), /no HTTP\/1.1 204 left/);
  const failedSync = sync(7).replace('= 0', '= -1 EIO (Input/output error)');
  assert.match(judge([write(7), failedSync, ack(1)]), /no sync of/);
});
