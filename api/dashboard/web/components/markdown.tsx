import { Anchor, Box, Typography } from '@mantine/core'
import { useDeferredValue } from 'react'
import ReactMarkdown, { type Components } from 'react-markdown'
import remarkGfm from 'remark-gfm'

const plugins = [remarkGfm]
const components: Components = {
  a: ({ href, children }) => <Elsewhere href={href}>{children}</Elsewhere>,
  // The URL of a link in a model's text may contain parts of the prompt: it is only requested when a person clicks it.
  img: ({ src, alt }) => <Elsewhere href={src}>{alt || src}</Elsewhere>,
  table: ({ children }) => (
    <Box style={{ overflowX: 'auto' }}>
      <table>{children}</table>
    </Box>
  ),
}

/** Text of others as Markdown. HTML in it is shown as text. */
export default function Markdown({ children }: { children: string }) {
  // While an answer streams, typing and clicks come first.
  const text = useDeferredValue(children)
  return (
    <Typography fz="sm" className="markdown">
      <ReactMarkdown remarkPlugins={plugins} components={components}>
        {text}
      </ReactMarkdown>
    </Typography>
  )
}

/** A link, unless its address is one that is not followed. */
function Elsewhere({ href, children }: { href: string | undefined; children: React.ReactNode }) {
  if (!href) return children
  return (
    <Anchor href={href} target="_blank" rel="noopener noreferrer" inherit underline="always">
      {children}
    </Anchor>
  )
}
