/** Samples of all nodes as text, by prom-client. A registry lives for one answer: nodes that left leave no series. */
import { Counter, Gauge, Histogram, Registry, type RegistryContentType, Summary } from 'prom-client';
import { type Family, FAMILIES, type MetricSample, UP, ANSWER_SECONDS } from './families.ts';
import type { NodeAnswer } from './scrape.ts';

export type Format = 'openmetrics' | 'text';

export const CONTENT_TYPES = {
  openmetrics: Registry.OPENMETRICS_CONTENT_TYPE,
  text: Registry.PROMETHEUS_CONTENT_TYPE,
} as const;

/** Scrapers that read both say which they prefer: Prometheus and its like OpenMetrics, browsers and curl text. */
export function formatFor(accept: string): Format {
  const ranges = accept.split(',').map((range) => {
    const [type = '', ...parameters] = range.split(';').map((part) => part.trim().toLowerCase());
    const quality = parameters.find((parameter) => parameter.startsWith('q='));
    const version =
      parameters.find((parameter) => parameter.startsWith('version='))?.slice('version='.length) ?? '1.0.0';
    return { type, version, quality: quality === undefined ? 1 : Number(quality.slice(2)) || 0 };
  });
  const best = (type: string, version?: string): number =>
    Math.max(
      0,
      ...ranges
        .filter((one) => one.type === type && (version ?? one.version) === one.version)
        .map((one) => one.quality),
    );
  const open = best('application/openmetrics-text', '1.0.0');
  return open > 0 && open >= best('text/plain') ? 'openmetrics' : 'text';
}

interface NodeSample extends MetricSample {
  readonly node: string;
}

export async function render(answers: readonly NodeAnswer[], format: Format): Promise<string> {
  const registry = new Registry<RegistryContentType>();
  registry.setContentType(CONTENT_TYPES[format]);
  for (const family of FAMILIES) register(registry, family, samplesOf(family, answers));
  return await registry.metrics();
}

function* samplesOf({ name, read }: Family, answers: readonly NodeAnswer[]): Iterable<NodeSample> {
  for (const { nodeId, json, seconds } of answers) {
    const node = String(nodeId);
    if (name === UP) yield { node, labels: {}, value: json === undefined ? 0 : 1 };
    else if (name === ANSWER_SECONDS) yield { node, labels: {}, value: seconds };
    else if (json !== undefined) for (const sample of read(json)) yield { node, ...sample };
  }
}

function register(registry: Registry<RegistryContentType>, family: Family, samples: Iterable<NodeSample>): void {
  const { name, kind, help, labels } = family;
  const options = { name, help, labelNames: [...labels], registers: [registry] };
  if (kind === 'summary' || kind === 'histogram') {
    new FixedDistribution(kind, options, samples);
    return;
  }
  if (kind === 'gauge') {
    const gauge = new Gauge(options);
    for (const { node, labels: more, value } of samples) gauge.set({ node, ...more }, value);
  } else {
    const counter = new Counter(options);
    for (const { node, labels: more, value } of samples) counter.inc({ node, ...more }, value);
  }
}

interface FixedOptions {
  readonly name: string;
  readonly help: string;
  readonly labelNames: string[];
  readonly registers: Registry<RegistryContentType>[];
}

const NAMELESS = { name: 'none', help: 'none', registers: [] };

/**
 * Quantiles and buckets that a node computed. The library computes its own from observations, which only the node has.
 * A summary of the library's gives its values as it has them; its histogram does not.
 */
class FixedDistribution extends Summary {
  readonly #kind: 'summary' | 'histogram';
  readonly #name: string;
  readonly #samples: readonly NodeSample[];

  constructor(kind: 'summary' | 'histogram', options: FixedOptions, samples: Iterable<NodeSample>) {
    // `quantile` is the library's own label of summaries.
    super({ ...options, labelNames: options.labelNames.filter((label) => label !== 'quantile') });
    this.#kind = kind;
    this.#name = options.name;
    this.#samples = [...samples];
  }

  override async get(): ReturnType<Summary['get']> {
    const described = await super.get();
    const values = this.#samples.map(({ node, labels, value, suffix = '' }) => ({
      ...{ metricName: this.#name + suffix, labels: { node, ...labels }, value },
    }));
    // The library's name of the type is in no module of it, only in what its metrics say.
    const { type } = this.#kind === 'summary' ? described : await new Histogram(NAMELESS).get();
    return { ...described, type, values };
  }
}
