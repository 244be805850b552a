// A program that appends its input as a producer of its own, and says of each append where it ends. It begins from the
// start whenever it is started: what it appended before takes effect once.
import process from 'node:process';
import { connect } from '../../src/client/client.ts';

const [url = '', name = '', count = ''] = process.argv.slice(2);
const client = connect(url);
const producer = { id: 'importer' };
const stream = client.stream('b', name, { contentType: 'text/plain', producer });
const appends = Array.from({ length: Number(count) }, async (_, i) => {
  const offset = await stream.append(`${i};`);
  process.stdout.write(`${i} ${offset}\n`);
});
await Promise.all(appends);
client.close();
