import { createTheme, type MantineColorsTuple } from '@mantine/core'

/** The primary colour. White text has a contrast of at least 4.5:1 on its sixth and later shades. */
const water: MantineColorsTuple = [
  '#e6fafd',
  '#d3f1f6',
  '#a7e2ec',
  '#78d2e2',
  '#52c5da',
  '#2bb0c8',
  '#0f7f94',
  '#0b6b7d',
  '#085867',
  '#044451',
]

/** The header of a dialog is no banner of the page. */
const plainHeader = { header: { role: 'presentation' } }

/** A title of one long word breaks, so that the button beside it keeps its place. */
const wrappedTitle = { title: { minWidth: 0 } }

export const theme = createTheme({
  primaryColor: 'water',
  primaryShade: { light: 7, dark: 6 },
  colors: { water },
  autoContrast: true,
  respectReducedMotion: true,
  defaultRadius: 'sm',
  fontFamily: '-apple-system, BlinkMacSystemFont, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif',
  fontFamilyMonospace: 'ui-monospace, SFMono-Regular, Menlo, Consolas, monospace',
  headings: {
    fontWeight: '600',
    sizes: { h1: { fontSize: '1.5rem' }, h2: { fontSize: '1.125rem' }, h3: { fontSize: '1rem' } },
  },
  components: {
    Table: { defaultProps: { verticalSpacing: 'xs', highlightOnHover: true } },
    // Makes wide tables scrollable by keyboard.
    TableScrollContainer: { defaultProps: { scrollAreaProps: { viewportProps: { tabIndex: 0 } } } },
    // The Tab key would leave out the button that shows the password.
    PasswordInput: {
      defaultProps: {
        visibilityToggleFocusable: true,
        visibilityToggleButtonProps: { 'aria-label': 'Show password' },
      },
    },
    Button: { defaultProps: { size: 'sm' } },
    // A lone point or sign is not a number: a form with one is not submitted.
    NumberInput: { defaultProps: { pattern: '.*[0-9].*' } },
    Modal: {
      defaultProps: { closeButtonProps: { 'aria-label': 'Close' }, styles: wrappedTitle, attributes: plainHeader },
    },
    Drawer: {
      defaultProps: {
        position: 'right',
        size: 'lg',
        closeButtonProps: { 'aria-label': 'Close' },
        styles: wrappedTitle,
        attributes: plainHeader,
      },
    },
    // Its own grey is too light on white.
    Notification: {
      defaultProps: {
        closeButtonProps: { 'aria-label': 'Close' },
        styles: { description: { color: 'var(--mantine-color-text)' } },
      },
    },
    // An empty element would have the focus of an opened menu instead of its first item.
    Menu: { defaultProps: { withInitialFocusPlaceholder: false } },
    Fieldset: { defaultProps: { mx: 0 } },
    Badge: { defaultProps: { variant: 'light', radius: 'sm', tt: 'none' } },
  },
})
