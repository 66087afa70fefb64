import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { defineConfig } from 'vitepress'

const docs = join(import.meta.dirname, '..')

/** The sidebar: every page of this folder has its place here (test/deploy/docs-site.test.ts). */
const sections: [title: string, pages: string[]][] = [
  ['Start', ['index', 'clients', 'agents', 'keys-and-limits', 'models']],
  ['Guides', ['chat', 'routing', 'reasoning', 'responses', 'responses-websocket', 'embeddings', 'images', 'audio']],
  ['Background work', ['media', 'batches-and-jobs', 'webhooks']],
  ['Realtime', ['realtime']],
  ['Money and errors', ['money', 'errors']],
  [
    'Operate',
    ['deployment', 'configuration', 'providers', 'dashboard', 'metrics', 'traces', 'retention', 'scaling', 'security'],
  ],
  ['Design', ['ARCHITECTURE', 'decisions/index', 'glossary']],
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

export default defineConfig({
  title: 'Headgate',
  description: 'A self-hosted gateway for generative models.',
  base: '/docs/',
  head: [['link', { rel: 'icon', href: '/dashboard/icon.svg' }]],
  outDir: '../api/docs-site/dist',
  cacheDir: '../.data/vitepress',
  cleanUrls: true,
  // The usual themes have colours below 4.5:1.
  markdown: { theme: { light: 'github-light-high-contrast', dark: 'github-dark' } },
  // The gateway's content policy allows scripts from files only, so that data is one.
  metaChunk: true,
  // Files of the repository, such as ../ops/prometheus/alerts.yml, are not part of the site.
  ignoreDeadLinks: [/^(?:\.\/)?(?:\.\.\/)+(?!decisions\/)/, /^\/api\//],
  themeConfig: {
    search: { provider: 'local' },
    outline: [2, 3],
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
