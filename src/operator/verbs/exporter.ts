import { type Address, formatAddress, parseAddress } from '../../base/address.ts';
import { CONFIG, SCRAPE_TOKEN, type Verb, asking, openCluster, tokenOf } from '../context.ts';
import { UsageError } from '../failure.ts';

const LISTEN = '127.0.0.1:4490';
/** Half of what Prometheus gives a scrape. */
const NODE_SECONDS = 5;

export const exporter: Verb = {
  name: 'exporter',
  about: 'serve the metrics of all nodes to Prometheus and its like (/metrics), until Ctrl-C',
  examples: [
    'millracectl exporter --config /etc/millrace/cluster.toml',
    'millracectl exporter --listen 0.0.0.0:4490 --scrape-token-file /etc/millrace/scrape-token',
  ],
  flags: {
    config: CONFIG,
    listen: { kind: 'text', value: 'HOST:PORT', about: `where scrapers ask (${LISTEN})` },
    'scrape-token-file': {
      kind: 'text',
      value: 'FILE',
      about: 'file with the bearer token that scrapers send; or MILLRACE_SCRAPE_TOKEN, the token',
    },
    'allow-unauthenticated': { kind: 'switch', about: 'listen beyond loopback without a token' },
    ...asking(NODE_SECONDS),
  },
  run: async (context) => {
    const { values, signal, err, say } = context;
    // Loaded here, because no other verb needs the client library of Prometheus.
    const { ExporterServer, isLoopback } = await import('../exporter/server.ts');
    const { Scraper } = await import('../exporter/scrape.ts');
    const address = addressOf(values.text('listen') ?? LISTEN);
    const token = tokenOf(context, SCRAPE_TOKEN);
    if (!isLoopback(address.host) && token === undefined && !values.isSet('allow-unauthenticated'))
      throw new UsageError(
        `--listen ${formatAddress(address)} is beyond loopback: give --scrape-token-file, or --allow-unauthenticated where the network is private`,
      );
    const cluster = await openCluster(context);
    const scraper = new Scraper(cluster, (line) => err.say(line));
    const server = new ExporterServer({ scraper, token });
    const taken = await server.listen(address);
    const { length } = cluster.nodes;
    say(`exporter of ${length} node${length === 1 ? '' : 's'}: http://${formatAddress(taken)}/metrics`);
    if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
    await server.close();
  },
};

function addressOf(written: string): Address {
  const address = parseAddress(written);
  if (address === undefined) throw new UsageError(`--listen ${written}: expected HOST:PORT, such as ${LISTEN}`);
  return address;
}
