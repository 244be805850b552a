/**
 * Part of the build: the console's page as one document, dist/src/console/page.html, from src/console/page. Script and style are inside,
 * because their hashes are what the page's policy allows.
 */
import { readFileSync, writeFileSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import process from 'node:process';
import { fileURLToPath } from 'node:url';
import { transform } from 'lightningcss';
import { rolldown } from 'rolldown';

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const PAGE = join(ROOT, 'src/console/page');
const RESULT = join(ROOT, 'dist/src/console/page.html');
/** A page that operators open over a thin link while something is wrong. */
const BYTES_MAX = 300 * 1024;
const SCRIPT = '<!-- script -->';
const STYLE = '<!-- style -->';

async function script() {
  const bundle = await rolldown({
    input: join(PAGE, 'main.tsx'),
    platform: 'browser',
    tsconfig: join(PAGE, 'tsconfig.json'),
    transform: { target: 'es2022' },
    onLog(level, log, handle) {
      // A module of Node would be left in as an import that no browser has.
      if (level === 'warn') throw new Error(log.message);
      handle(level, log);
    },
  });
  const { output } = await bundle.generate({ format: 'iife', minify: true });
  const [{ code }, ...more] = output;
  if (more.length > 0) throw new Error('the page is more than one file');
  // Inside of a document these end the script, or begin what hides its end.
  return code.replaceAll('</script', '<\\/script').replaceAll('<!--', '<\\!--');
}

function style() {
  const files = [join(ROOT, 'node_modules/uplot/dist/uPlot.min.css'), join(PAGE, 'style.css')];
  const code = Buffer.concat(files.map((file) => readFileSync(file)));
  return transform({ filename: 'style.css', code, minify: true }).code.toString();
}

const [js, css] = [await script(), style()];
const html = readFileSync(join(PAGE, 'page.html'), 'utf8')
  .replace(STYLE, () => `<style>${css}</style>`)
  .replace(SCRIPT, () => `<script type="module">${js}</script>`);
const bytes = Buffer.byteLength(html);
if (bytes > BYTES_MAX) {
  process.stderr.write(`millrace: the console's page has ${bytes} bytes; ${BYTES_MAX} at most\n`);
  process.exitCode = 1;
}
mkdirSync(dirname(RESULT), { recursive: true });
writeFileSync(RESULT, html);
