import { ActionIcon, Code, CopyButton, Group, ScrollArea, Tabs, Tooltip } from '@mantine/core'
import { IconCheck, IconCopy } from '@tabler/icons-react'

/** Copies a text; says so. `label` names what is copied. */
export function Copy({ value, label }: { value: string; label: string }) {
  return (
    <CopyButton value={value} timeout={2_000}>
      {({ copied, copy }) => (
        <Tooltip label={copied ? 'Copied' : `Copy ${label}`} withArrow>
          <ActionIcon
            variant="subtle"
            color={copied ? 'teal' : 'gray'}
            onClick={copy}
            aria-label={copied ? `${label} copied` : `Copy ${label}`}
          >
            {copied ? <IconCheck size={16} aria-hidden /> : <IconCopy size={16} aria-hidden />}
          </ActionIcon>
        </Tooltip>
      )}
    </CopyButton>
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
