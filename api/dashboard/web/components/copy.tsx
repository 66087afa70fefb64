import { ActionIcon, Code, Group, ScrollArea, Tabs, Tooltip } from '@mantine/core'
import { IconCheck, IconCopy } from '@tabler/icons-react'
import { useEffect, useState } from 'react'
import { copyText } from './clipboard.ts'

const shownMs = 2_000

/** Copies a text; says so. `label` names what is copied. */
export function Copy({ value, label }: { value: string; label: string }) {
  const [outcome, setOutcome] = useState<'copied' | 'refused' | null>(null)
  useEffect(() => {
    if (outcome === null) return
    const timer = setTimeout(() => setOutcome(null), shownMs)
    return () => clearTimeout(timer)
  }, [outcome])
  const copy = async () => setOutcome((await copyText(value)) ? 'copied' : 'refused')
  const said = { copied: `${label} copied`, refused: 'The browser refuses: select the text instead' }
  const words = outcome === null ? `Copy ${label}` : said[outcome]
  return (
    <Tooltip label={words} withArrow>
      <ActionIcon
        variant="subtle"
        color={outcome === 'copied' ? 'teal' : 'gray'}
        onClick={() => void copy()}
        aria-label={words}
      >
        {outcome === 'copied' ? <IconCheck size={16} aria-hidden /> : <IconCopy size={16} aria-hidden />}
      </ActionIcon>
    </Tooltip>
  )
}

/** A piece of code that can be copied and, where it is long, scrolled by keyboard. */
export function CodeBox({ code, label }: { code: string; label: string }) {
  return (
    <Group wrap="nowrap" align="flex-start" gap={4}>
      <ScrollArea
        type="auto"
        style={{ flex: 1, minWidth: 0 }}
        viewportProps={{ tabIndex: 0, role: 'region', 'aria-label': label }}
      >
        {/* Only the area around it scrolls: it is the one that keys reach. */}
        <Code block style={{ whiteSpace: 'pre', overflow: 'visible', minWidth: 'max-content' }}>
          {code}
        </Code>
      </ScrollArea>
      <Copy value={code} label={label} />
    </Group>
  )
}

/** The same thing in several languages. */
export function Snippets({ snippets }: { snippets: { language: string; code: string }[] }) {
  return (
    <Tabs defaultValue={snippets[0]!.language} keepMounted={false}>
      <Tabs.List>
        {snippets.map(({ language }) => (
          <Tabs.Tab key={language} value={language}>
            {language}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {snippets.map(({ language, code }) => (
        <Tabs.Panel key={language} value={language} pt="xs">
          <CodeBox code={code} label={`${language} example`} />
        </Tabs.Panel>
      ))}
    </Tabs>
  )
}
