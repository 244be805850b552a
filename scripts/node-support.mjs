/**
 * Which Node runs Millrace, asked before anything else is loaded: on an unfit one the first import would end in a stack
 * trace of a library. Plain JavaScript in the oldest syntax at hand, because it has to run on every Node.
 *
 * The bounds are those of uWebSockets.js, whose two builds are installed side by side (src/http/uws.ts).
 */

/** Newest first. `majors`: the versions of Node that the build has a binary for. */
const BUILDS = [
  { glibc: [2, 38], majors: [22, 24, 26] },
  { glibc: [2, 36], majors: [20, 22, 23] },
];
const OLDEST = [20, 19];
const ADVICE = 'use Node 20 (20.19 or newer), 22, or, with glibc 2.38 or newer (Debian 13, Ubuntu 24.04), 24 or 26';

/** `glibc` is undefined on a Linux with another C library. */
export function thisHost() {
  const { glibcVersionRuntime } = process.platform === 'linux' ? reportHeader() : {};
  return { node: process.versions.node, platform: process.platform, glibc: glibcVersionRuntime };
}

/** One sentence for the user when this Node cannot run Millrace; undefined when it can. */
export function unsupported({ node, platform, glibc }) {
  if (platform !== 'linux') return undefined;
  const version = numbers(node);
  if (isBelow(version, OLDEST)) return `Node ${node} is too old for Millrace: ${ADVICE}`;
  const builds = buildsFor(node);
  if (builds.length === 0) return `Millrace does not run on Node ${node}: ${ADVICE}`;
  if (glibc === undefined)
    return 'Millrace needs a Linux with glibc, and this one has another C library (Alpine has musl): use a Debian or Ubuntu image';
  if (builds.some((build) => !isBelow(numbers(glibc), build.glibc))) return undefined;
  return `Node ${version[0]} needs glibc ${glibcFor(node)} or newer to run Millrace, and this host has ${glibc}: ${ADVICE}`;
}

/** The oldest glibc with which that Node runs Millrace. */
export function glibcFor(node) {
  const builds = buildsFor(node);
  return builds[builds.length - 1].glibc.join('.');
}

function buildsFor(node) {
  return BUILDS.filter(({ majors }) => majors.includes(numbers(node)[0]));
}

function reportHeader() {
  // The report asks for the host's network interfaces otherwise, which may take seconds where names are looked up.
  process.report.excludeNetwork = true;
  const report = process.report.getReport();
  return typeof report === 'string' ? JSON.parse(report).header : report.header;
}

function numbers(version) {
  return version.split('.').map(Number);
}

function isBelow([major, minor], [leastMajor, leastMinor]) {
  return major < leastMajor || (major === leastMajor && minor < leastMinor);
}
