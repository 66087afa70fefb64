import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig } from 'vitepress'

const docs = join(import.meta.dirname, '..')

/** The sidebar: every page of this folder has its place here (test/slow/docs/docs-site.test.ts). */
const sections: [title: string, pages: string[]][] = [
  ['Start', ['index', 'clients', 'agents', 'keys-and-limits', 'own-keys', 'models']],
  [
    'Guides',
    [
      'chat',
      'presets',
      'guardrails',
      'routing',
      'reasoning',
      'responses',
      'responses-websocket',
      'embeddings',
      'images',
      'audio',
      'ocr',
    ],
  ],
  ['Background work', ['media', 'batches-and-jobs', 'webhooks']],
  ['Realtime', ['realtime']],
  ['Money and errors', ['money', 'errors']],
  [
    'Operate',
    [
      'deployment',
      'configuration',
      'apply',
      'providers',
      'dashboard',
      'metrics',
      'traces',
      'log-exports',
      'retention',
      'scaling',
      'security',
      'proof',
    ],
  ],
  ['Design', ['ARCHITECTURE', 'decisions/index', 'glossary', 'changelog']],
]

/** The first heading of a page. */
function titleOf(page: string): string {
  return /^# (.+)$/m.exec(readFileSync(join(docs, `${page}.md`), 'utf8'))?.[1] ?? page
}

const decisions = readdirSync(join(docs, 'decisions'))
  .filter(name => name.endsWith('.md') && name !== 'index.md')
  .map(name => name.slice(0, -'.md'.length))
  .map(name => ({ text: titleOf(`decisions/${name}`), link: `/decisions/${name}` }))
  .sort((a, b) => a.text.localeCompare(b.text))

/** The entry of a page in the sidebar. */
function itemOf(page: string) {
  if (page === 'index') return { text: 'Quickstart', link: '/' }
  return { text: titleOf(page), link: `/${page.replace(/index$/, '')}` }
}

/** The part of VitePress' Markdown reader that is used here. */
type Token = { type: string; content: string; children: Token[] | null; attrSet(name: string, value: string): void }
type Markdown = {
  core: {
    ruler: { push(name: string, rule: (state: { tokens: Token[]; env: { relativePath?: string } }) => void): void }
  }
}

/** Gives each row of the table of errors the code as its id, so that /docs/errors#insufficient_credits leads there. */
function anchorErrorCodes(markdown: Markdown): void {
  markdown.core.ruler.push('error-codes', ({ tokens, env }) => {
    if (env.relativePath !== 'errors.md') return
    const seen = new Set<string>()
    let row: Token | undefined
    for (const token of tokens) {
      if (token.type === 'tr_open') row = token
      const [first] = token.type === 'inline' ? (token.children ?? []) : []
      if (!row || first?.type !== 'code_inline' || seen.has(first.content)) continue
      row.attrSet('id', first.content)
      seen.add(first.content)
      row = undefined
    }
  })
}

export default defineConfig({
  title: 'Headgate',
  description: 'A self-hosted gateway for generative models.',
  base: '/docs/',
  head: [['link', { rel: 'icon', href: '/dashboard/icon.svg' }]],
  outDir: '../api/docs-site/dist',
  cacheDir: '../.data/vitepress',
  cleanUrls: true,
  // The usual themes have colours below 4.5:1.
  markdown: { theme: { light: 'github-light-high-contrast', dark: 'github-dark' }, config: anchorErrorCodes },
  // The gateway's content policy allows scripts from files only, so that data is one.
  metaChunk: true,
  // Files of the repository, such as ../ops/prometheus/alerts.yml, are not part of the site.
  ignoreDeadLinks: [/^(?:\.\/)?(?:\.\.\/)+(?!decisions\/)/, /^\/api\//],
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
    notFound: {
      title: 'Page not found',
      quote: 'There is no such page in the documentation of this gateway. Search it, or choose a page in the menu.',
      linkText: 'To the quickstart',
      linkLabel: 'To the quickstart',
    },
    nav: [
      { text: 'API reference', link: '/api/', target: '_self' },
      { text: 'Dashboard', link: '/dashboard', target: '_self' },
    ],
    sidebar: {
      '/': sections.map(([text, pages]) => ({ text, items: pages.map(itemOf) })),
      '/decisions/': [
        { text: 'Documentation', link: '/' },
        { text: 'Decisions', items: decisions },
      ],
    },
  },
  vite: { build: { chunkSizeWarningLimit: 2_000 } },
})
