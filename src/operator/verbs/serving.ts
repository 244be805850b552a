/** Verbs that serve until Ctrl-C. */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type Address, formatAddress, isLoopback, parseAddress } from '../../base/address.ts';
import { readConsolePage } from '../../console/built-page.ts';
import { ConsoleServer } from '../../console/cluster/server.ts';
import { CONFIG, type Context, SCRAPE_TOKEN, type Verb, asking, openCluster, tokenOf, textFlag } from '../context.ts';
import { Failure, UsageError } from '../../nodes/failure.ts';

const CONSOLE_LISTEN = '127.0.0.1:4480';
const EXPORTER_LISTEN = '127.0.0.1:4490';
const KEY_BYTES = 24;
/** Half of what Prometheus gives a scrape. */
const NODE_SECONDS = 5;

export const consoleVerb: Verb = {
  name: 'console',
  about: 'serve a web page about the whole cluster on this host, until Ctrl-C',
  examples: ['millracectl console --config /etc/millrace/cluster.toml', 'millracectl console --listen 127.0.0.1:8080'],
  flags: {
    config: CONFIG,
    listen: textFlag('HOST:PORT', `where, on the loopback of this host (${CONSOLE_LISTEN})`),
    ...asking(),
  },
  run: async (context) => {
    const address = addressOf(context, CONSOLE_LISTEN);
    if (!isLoopback(address.host))
      throw new UsageError(
        `--listen ${context.values.text('listen')}: the console speaks plain HTTP and listens on loopback only; from elsewhere reach it with ssh -L`,
      );
    const { file, options: client } = await openCluster(context);
    const page = readConsolePage('cluster');
    if (page === undefined) throw new Failure('this installation was made without the page; run "npm run build" in it');
    // Anyone with the address has the tool's rights: other users of this host must not guess it.
    const key = randomBytes(KEY_BYTES).toString('base64url');
    const server = new ConsoleServer({ label: file.label, nodes: file.nodes, page, client, key });
    const taken = await server.listen(address);
    context.say(`console of ${nodesOf(file.nodes)}: http://${formatAddress(taken)}/#key=${key}`);
    await untilInterrupted(context);
    await server.close();
  },
};

export const exporter: Verb = {
  name: 'exporter',
  about: 'serve the metrics of all nodes to Prometheus and its like (/metrics), until Ctrl-C',
  examples: [
    'millracectl exporter --config /etc/millrace/cluster.toml',
    'millracectl exporter --listen 0.0.0.0:4490 --scrape-token-file /etc/millrace/scrape-token',
  ],
  flags: {
    config: CONFIG,
    listen: textFlag('HOST:PORT', `where scrapers ask (${EXPORTER_LISTEN})`),
    'scrape-token-file': textFlag(
      'FILE',
      'file with the bearer token that scrapers send; or MILLRACE_SCRAPE_TOKEN, the token',
    ),
    'allow-unauthenticated': { kind: 'switch', about: 'listen beyond loopback without a token' },
    ...asking(NODE_SECONDS),
  },
  run: async (context) => {
    const { values, err, say } = context;
    // Loaded here, because no other verb needs the client library of Prometheus.
    const { ExporterServer } = await import('../../exporter/server.ts');
    const { Scraper } = await import('../../exporter/scrape.ts');
    const address = addressOf(context, EXPORTER_LISTEN);
    const token = tokenOf(context, SCRAPE_TOKEN);
    if (!isLoopback(address.host) && token === undefined && !values.isSet('allow-unauthenticated'))
      throw new UsageError(
        `--listen ${formatAddress(address)} is beyond loopback: give --scrape-token-file, or --allow-unauthenticated where the network is private`,
      );
    const cluster = await openCluster(context);
    const server = new ExporterServer({ scraper: new Scraper(cluster, (line) => err.say(line)), token });
    const taken = await server.listen(address);
    say(`exporter of ${nodesOf(cluster.nodes)}: http://${formatAddress(taken)}/metrics`);
    await untilInterrupted(context);
    await server.close();
  },
};

function addressOf({ values }: Context, usual: string): Address {
  const written = values.text('listen') ?? usual;
  const address = parseAddress(written);
  if (address === undefined) throw new UsageError(`--listen ${written}: expected HOST:PORT, such as ${usual}`);
  return address;
}

const nodesOf = ({ length }: readonly unknown[]): string => `${length} node${length === 1 ? '' : 's'}`;

async function untilInterrupted({ signal }: Context): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort');
}
