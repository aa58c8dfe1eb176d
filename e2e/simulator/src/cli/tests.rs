use super::*;
use clap::CommandFactory;

#[test]
fn the_command_line_is_well_formed() {
    Cli::command().debug_assert();
}

#[test]
fn delays_can_be_unlimited() -> Result<(), clap::Error> {
    let cli = Cli::try_parse_from(["vmpool-simulator", "--stop-delay=never", "--nodes=a,b,c"])?;
    assert_eq!(cli.config(0).settings.stop_delay, Delay::Never);
    assert_eq!(cli.nodes, ["a", "b", "c"]);
    Ok(())
}

#[test]
fn an_empty_list_of_nodes_is_an_error() {
    assert!(Cli::try_parse_from(["vmpool-simulator", "--max-in-flight=0"]).is_err());
}

#[rstest::rstest]
#[case::by_default(&[], shell::Platforms { dvp: true, kubevirt: false })]
#[case::kubevirt(&["--platform=kubevirt"], shell::Platforms { dvp: false, kubevirt: true })]
#[case::all(&["--platform=all"], shell::Platforms { dvp: true, kubevirt: true })]
fn a_platform_is_chosen(#[case] flags: &[&str], #[case] platforms: shell::Platforms) {
    let cli = Cli::try_parse_from(std::iter::once(&"vmpool-simulator").chain(flags)).unwrap();
    assert_eq!(cli.config(0).platforms, platforms);
}
