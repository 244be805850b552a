// Container files put on one machine: names and addresses become ports of loopback, folders those of a test.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DockerfileParser, type JSONInstruction } from 'dockerfile-ast';
import { parse, parseAllDocuments } from 'yaml';
import { REPO_ROOT } from './paths.ts';

export const DOCKERFILE = 'scripts/docker/Dockerfile';
export const COMPOSE = 'scripts/docker/compose.yaml';
export const MANIFESTS = 'scripts/kubernetes/millrace.yaml';
export const EXPORTER_MANIFESTS = 'scripts/kubernetes/exporter.yaml';
/** Ports of one node: clients, operators, links of up to two shards. */
export const PORTS_PER_NODE = 4;

export const SECRETS_OF_NODES = ['cluster-secret', 'client-token', 'admin-token', 'admin-tokens.toml'];
export const SECRETS_OF_EXPORTER = ['exporter-token', 'scrape-token'];
export const SECRETS = [...SECRETS_OF_NODES, ...SECRETS_OF_EXPORTER, 'grafana-password'];
/** The secret of all of them in tests, but of the exporter's token. */
export const SECRET = '8f14e45fceea167a5a36dedd4bea2543';
const OBSERVER = 'c9f0f895fb98ab9159f51fd0297e236d';

/** As Compose and Kubernetes mount them, below `folder`; the operators' tokens as the document has them made. */
export function mountSecrets(folder: string): void {
  for (const below of ['run/secrets', 'run/secrets/millrace']) {
    mkdirSync(join(folder, below), { recursive: true });
    for (const name of SECRETS) writeFileSync(join(folder, below, name), `${SECRET}\n`);
    const tokens =
      /^echo "(.*)" > millrace-secret\/admin-tokens\.toml$/m.exec(readText('scripts/README.md'))?.[1] ?? '';
    writeFileSync(
      join(folder, below, 'admin-tokens.toml'),
      tokens.replace('$(cat millrace-secret/exporter-token)', OBSERVER),
    );
    writeFileSync(join(folder, below, 'exporter-token'), OBSERVER);
  }
}

export interface ComposeService {
  readonly hostname?: string;
  readonly image?: string;
  readonly entrypoint?: readonly string[];
  readonly command?: readonly string[];
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly environment?: Readonly<Record<string, string>>;
  readonly ports?: readonly string[];
  readonly volumes?: readonly string[];
  readonly secrets?: readonly string[];
}

export interface ComposeFile {
  readonly services: Readonly<Record<string, ComposeService>>;
  readonly secrets: Readonly<Record<string, { readonly file: string }>>;
}

export interface KubernetesObject {
  readonly apiVersion: string;
  readonly kind: string;
  readonly metadata: { readonly name: string };
}

export function readText(path: string): string {
  return readFileSync(join(REPO_ROOT, path), 'utf8');
}

export function composeFile(): ComposeFile {
  return parse(readText(COMPOSE), { merge: true }) as ComposeFile;
}

export function manifests(path = MANIFESTS): KubernetesObject[] {
  return parseAllDocuments(readText(path)).map((document) => document.toJS() as KubernetesObject);
}

/** The words of an instruction in its JSON form, such as ENTRYPOINT; those behind CMD for HEALTHCHECK. */
export function wordsOf(keyword: string): string[] {
  const found = DockerfileParser.parse(readText(DOCKERFILE))
    .getInstructions()
    .findLast((instruction) => instruction.getKeyword() === keyword) as JSONInstruction | undefined;
  const text = found?.getRawArgumentsContent() ?? '';
  return JSON.parse(text.slice(text.indexOf('['))) as string[];
}

/** Where the exporter listens, behind the ports of three nodes. */
export function exporterPort(firstPort: number): number {
  return firstPort + 3 * PORTS_PER_NODE;
}

/** Text of a file for node `ordinal` (from 0) of a cluster whose ports begin at `firstPort`. */
export function localized(text: string, ordinal: number, firstPort: number, folder: string): string {
  const port = (of: number, offset: number): number => firstPort + of * PORTS_PER_NODE + offset;
  return text
    .replaceAll(/\b(?:0\.0\.0\.0|127\.0\.0\.1):(4437|4438|4440)\b/g, (_, plane: string) => {
      return `127.0.0.1:${port(ordinal, { 4437: 0, 4438: 1, 4440: 2 }[plane] ?? 0)}`;
    })
    .replaceAll(
      /\bmillrace-(\d)\.millrace-nodes\.[a-z]+:4437\b/g,
      (_, of: string) => `127.0.0.1:${port(Number(of), 0)}`,
    )
    .replaceAll(/\b(?:0\.0\.0\.0|127\.0\.0\.1|exporter):4490\b/g, `127.0.0.1:${exporterPort(firstPort)}`)
    .replaceAll(/\bmillrace-(\d)(?:\.millrace-nodes)?:4440\b/g, (_, of: string) => `127.0.0.1:${port(Number(of), 2)}`)
    .replaceAll(/^host = "millrace-(\d)(?:\.millrace-nodes)?"$/gm, (_, of: string) => {
      return `host = "127.0.0.1"\nadmin_port = ${port(Number(of), 1)}`;
    })
    .replaceAll('/opt/millrace/', `${folder}/`)
    .replaceAll('/var/lib/millrace/', `${folder}/volume-${ordinal}/`)
    .replaceAll(/\/(run\/secrets|etc\/millrace)\//g, `${folder}/$1/`);
}
